use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_engine::{Control, LiveTotals, RunResult};
use ridgeline_fleet::Share;
use ridgeline_fleet::message::{Assignment, Finished, RecordsTold};
use ridgeline_metrics::Phase;
use ridgeline_report::records::{JSONL, RecordWriter, SPOOL, Written};
use rtrb::RingBuffer;

use super::WorkerArgs;
use crate::complaint::Complaint;
use crate::config::{BenchConfig, RecordsKind};
use crate::part::Part;
use crate::setup::Setup;
use crate::{file, folder, machine, terminal};

/// The files of a worker's folder.
const FILES: &[&str] = &[JSONL, SPOOL, "worker.yaml"];

/// What the run says.
#[derive(Debug)]
pub(super) enum Told {
    /// Its shards wait for a phase.
    Ready { phase: Phase, driver: &'static str },
    /// It is over.
    Finished(Box<Finished>),
    /// It can't be made, or can't go on.
    Failed(String),
}

/// One run of this worker: its files, and the thread that builds and drives it.
pub(super) struct Job {
    assignment: Assignment,
    cores: Option<String>,
    output_dir: PathBuf,
    control: Arc<Control>,
    folder: Option<folder::Folder>,
    /// What could not be done so far.
    trouble: Option<String>,
    inputs: Vec<PathBuf>,
    thread: Option<JoinHandle<()>>,
    starts: Option<Sender<Nanos>>,
    told: Receiver<Told>,
    tell: Sender<Told>,
    wake: Option<Box<dyn Fn() + Send + Sync>>,
    lines: Option<File>,
}

impl Job {
    /// A run that was given. `wake` makes the link's thread look at what the run says.
    pub(super) fn new(
        assignment: Assignment,
        args: &WorkerArgs,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let (tell, told) = mpsc::channel();
        let control = Control::new(assignment.shards).of_worker(assignment.worker);
        let mut this = Self {
            cores: args.cores.clone(),
            output_dir: args.listen.output_dir.clone(),
            control: Arc::new(control),
            folder: None,
            trouble: None,
            inputs: Vec::new(),
            thread: None,
            starts: None,
            told,
            tell,
            wake: Some(wake),
            lines: None,
            assignment,
        };
        match this.make_folder() {
            Ok(folder) => this.folder = Some(folder),
            Err(error) => this.trouble = Some(error.to_string()),
        }
        this
    }

    fn make_folder(&mut self) -> Result<folder::Folder, Complaint> {
        let Assignment {
            run_id,
            worker,
            folder: asked,
            files,
            ..
        } = &self.assignment;
        let path = match asked {
            Some(asked) => PathBuf::from(asked),
            None => self
                .output_dir
                .join(format!("run-{run_id:08x}-worker-{worker}")),
        };
        let folder = folder::make(Some(&path), "", FILES)?;
        let input = |head: &ridgeline_fleet::message::FileHead| {
            folder.path.join(format!("{}-{}", head.key, head.name))
        };
        self.inputs = files.iter().map(input).collect();
        // What a killed run left would stand before what comes.
        for input in &self.inputs {
            let _ = fs::remove_file(input);
        }
        Ok(folder)
    }

    pub(super) fn totals(&self) -> LiveTotals {
        self.control.totals()
    }

    /// The next bytes of a file.
    pub(super) fn file(&mut self, place: usize, bytes: &[u8]) {
        let Some(path) = self.inputs.get(place) else {
            return;
        };
        let mut options = OpenOptions::new();
        let opened = options.create(true).append(true).open(path);
        if let Err(error) = opened.and_then(|mut file| file.write_all(bytes)) {
            let why = format!("cannot write {}: {error}", path.display());
            self.trouble.get_or_insert(why);
        }
    }

    /// Everything is there: the run is built and waits.
    pub(super) fn prepare(&mut self) {
        let (starts, begins) = mpsc::channel();
        self.starts = Some(starts);
        let (tell, wake) = (self.tell.clone(), self.wake.take());
        let wake = move || {
            if let Some(wake) = &wake {
                wake();
            }
        };
        let outside = Outside {
            control: self.control.clone(),
            begins: Mutex::new(begins),
            tell: tell.clone(),
            wake: Box::new(wake),
        };
        let input = self.input();
        let body = move || {
            let ended = input.and_then(|input| input.run(&outside));
            let told = match ended {
                Ok(finished) => Told::Finished(Box::new(finished)),
                Err(error) => Told::Failed(error.to_string()),
            };
            outside.tell(told);
        };
        match thread::Builder::new().name("run".to_owned()).spawn(body) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                let why = format!("cannot start a thread: {error}");
                // The receiver is this job's own.
                let _ = tell.send(Told::Failed(why));
            }
        }
    }

    fn input(&mut self) -> Result<Input, Complaint> {
        let folder = match (&self.folder, self.trouble.take()) {
            (Some(folder), None) => folder.path.clone(),
            (_, trouble) => return Err(Complaint::new(trouble.unwrap_or_default())),
        };
        let mut config = file::parse(&self.assignment.config).map_err(|error| {
            Complaint::new(format!("the plan of the run can't be read: {error}"))
        })?;
        for (head, path) in self.assignment.files.iter().zip(&self.inputs) {
            match head.key.as_str() {
                "dataset" => config.dataset = Some(path.clone()),
                "tokenizer" => config.tokenizer = Some(path.display().to_string()),
                "ca-file" => config.ca_file = Some(path.clone()),
                key => {
                    return Err(Complaint::new(format!(
                        "the plan has a file for `{key}`, which takes none"
                    )));
                }
            }
        }
        Ok(Input {
            part: self.part()?,
            config,
            folder,
        })
    }

    fn part(&self) -> Result<Part, Complaint> {
        let Assignment {
            run_id,
            first_shard,
            shards,
            ..
        } = self.assignment;
        let cores = match &self.cores {
            Some(text) => machine::cores(text, &machine::allowed_cores()?)?,
            None => self
                .assignment
                .cores
                .as_ref()
                .map(|cores| cores.iter().map(|&core| core as usize).collect()),
        };
        Ok(Part::Share {
            run_id,
            shards: first_shard..first_shard.saturating_add(shards),
            cores,
            api_key: self.assignment.api_key.as_ref().map(|key| key.0.clone()),
        })
    }

    /// What the run says next.
    pub(super) fn hear(&mut self) -> Option<Told> {
        if let Ok(told) = self.told.try_recv() {
            return Some(told);
        }
        let ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        let thread = if ended { self.thread.take() } else { None };
        // Its last words may have come just now.
        let told = self.told.try_recv().ok();
        match thread?.join() {
            Ok(()) => told,
            Err(_) => told.or_else(|| {
                let why = "the run stopped by an internal fault; please report it";
                Some(Told::Failed(why.to_owned()))
            }),
        }
    }

    /// A phase begins.
    pub(super) fn start(&mut self, at: Nanos) {
        if let Some(starts) = &self.starts {
            // A run that ended meanwhile has said so.
            let _ = starts.send(at);
        }
    }

    /// Issue no more, and give what is in flight until `drain_until`.
    pub(super) fn stop(&mut self, drain_until: Nanos) {
        self.control.stop(drain_until);
        self.starts = None;
    }

    /// Give up what is in flight.
    pub(super) fn cancel(&mut self) {
        self.control.cancel();
        self.starts = None;
    }

    /// A part of the lines; what can't be read is missing.
    pub(super) fn read(&mut self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut part = vec![0; bytes];
        let read = self
            .lines()
            .and_then(|file| file.read_at(&mut part, offset));
        if let Err(error) = &read {
            terminal::note(&format!("error: cannot read the records: {error}"));
        }
        part.truncate(read.unwrap_or(0));
        part
    }

    fn lines(&mut self) -> io::Result<&File> {
        let file = match (self.lines.take(), &self.folder) {
            (Some(file), _) => file,
            (None, Some(folder)) => File::open(folder.path.join(JSONL))?,
            (None, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(self.lines.insert(file))
    }

    /// The run is over: what need not be kept goes. Where its records are, if there are any.
    pub(super) fn end(mut self, gathered: bool) -> Option<PathBuf> {
        if let Some(thread) = self.thread.take() {
            // It has said its last, or was told to end.
            let _ = thread.join();
        }
        let folder = self.folder.take()?.path;
        for input in &self.inputs {
            let _ = fs::remove_file(input);
        }
        let lines = folder.join(JSONL);
        let empty = fs::metadata(&lines).is_ok_and(|data| data.len() == 0);
        let spooled = folder.join(SPOOL).exists();
        if gathered || empty && !spooled {
            let _ = fs::remove_file(&lines);
        }
        let _ = fs::remove_file(folder.join("worker.yaml"));
        // Only an empty one goes.
        let _ = fs::remove_dir(&folder);
        lines.exists().then_some(folder)
    }
}

/// What a run is made of.
struct Input {
    part: Part,
    config: BenchConfig,
    folder: PathBuf,
}

/// What the run's thread has of the link's.
struct Outside {
    control: Arc<Control>,
    begins: Mutex<Receiver<Nanos>>,
    tell: Sender<Told>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Input {
    fn run(self, outside: &Outside) -> Result<Finished, Complaint> {
        let setup = Setup::of(self.config, self.part)?;
        let wanted = setup.config.records != Some(RecordsKind::None);
        let queues = if wanted { setup.plan.own_count() } else { 0 };
        let (producers, consumers) = (0..queues)
            .map(|_| RingBuffer::new(setup.plan.limits.records_queued_max))
            .unzip();
        let control = &outside.control;
        let writer = setup.placement.helping(|| {
            wanted
                .then(|| RecordWriter::start(&self.folder, consumers, control.clone()))
                .transpose()
        })?;
        let driver = setup.backend.name();
        let begins = |phase| outside.begins(phase, driver);
        let run = setup
            .backend
            .run(&setup.plan, &setup.requests, control, producers, begins);
        // Also after a failed run: what came is kept.
        let written = writer.map(RecordWriter::finish);
        Ok(finished(run?, written, &self.folder))
    }
}

impl Outside {
    fn tell(&self, told: Told) {
        // The link's thread lives as long as the job.
        let _ = self.tell.send(told);
        (self.wake)();
    }

    /// When a phase begins: the coordinator says.
    fn begins(&self, phase: Phase, driver: &'static str) -> Nanos {
        if !self.control.is_stopped() {
            self.tell(Told::Ready { phase, driver });
        }
        let begins = self.begins.lock().unwrap_or_else(PoisonError::into_inner);
        begins.recv().unwrap_or_else(|_| {
            // Nobody will say: the run was ended.
            if !self.control.is_stopped() {
                self.control.cancel();
            }
            MonotonicClock.now()
        })
    }
}

fn finished(run: RunResult, written: Option<Written>, folder: &Path) -> Finished {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let length = |written: &Written| match fs::metadata(folder.join(JSONL)) {
        // What is still in the spool belongs between the lines.
        Ok(data) if written.unconverted == 0 => data.len(),
        _ => 0,
    };
    Finished {
        share: Share::of(run),
        records: written.map(|written| RecordsTold {
            folder: folder.display().to_string(),
            bytes: length(&written),
            written: written.records,
            spooled: written.spooled,
            unconverted: written.unconverted,
            lost: written.lost,
            uncounted: written.uncounted,
            error: written.error.as_ref().map(ToString::to_string),
            error_examples: written
                .error_examples
                .iter()
                .map(|(kind, message)| (kind.to_string(), message.clone()))
                .collect(),
        }),
    }
}
