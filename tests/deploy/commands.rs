//! Command lines in scripts and pages, read as a shell would.

/// One call of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Which line of which file it begins on.
    pub(crate) place: String,
    /// The words, quotes taken off. A variable is its value of [`VALUES`], a substitution `0`.
    pub(crate) words: Vec<String>,
}

impl Call {
    /// The arguments of ridgeline, if it is what this line runs: by itself, by another program, or as
    /// the image of a container, whose entry point it is.
    pub(crate) fn of_ridgeline(&self) -> Option<&[String]> {
        let is_it = |word: &String| word == "ridgeline" || word.ends_with("/ridgeline");
        let at = self.words.iter().position(is_it)?;
        // The name of an image, or a file.
        let before = at.checked_sub(1).map(|at| self.words[at].as_str());
        let is_name =
            matches!(before, Some("-t" | "--package" | "which")) || self.words[0] == "install";
        (!is_name).then(|| &self.words[at + 1..])
    }
}

/// What the variables of scripts and pages may stand for; one that is not here fails the test.
const VALUES: &[(&str, &str)] = &[
    ("addresses", "tcp://node-1:9700,tcp://node-2:9700"),
    ("plan", "plan.yaml"),
    ("port", "9700"),
    ("results", "ridgeline-7"),
];

/// The shell code of a page: its fenced blocks, and code between text that runs ridgeline.
pub(crate) fn of_page(file: &str, page: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut script = String::new();
    let mut fence: Option<&str> = None;
    for (number, line) in page.lines().enumerate() {
        match (line.trim().strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language),
            (Some(_), Some(_)) => fence = None,
            (None, Some("sh" | "bash")) => {
                script.push_str(line);
            }
            (None, None) => {
                let code = line.split('`').skip(1).step_by(2);
                for code in code.filter(|code| code.starts_with("ridgeline ")) {
                    let place = format!("{file}:{}", number + 1);
                    calls.extend(of_script(&place, code));
                }
            }
            (None, Some(_)) => {}
        }
        // Keeps the numbers of lines.
        script.push('\n');
    }
    calls.extend(of_script(file, &script));
    calls
}

/// The calls of a shell script.
pub(crate) fn of_script(file: &str, script: &str) -> Vec<Call> {
    let mut reader = Reader {
        file,
        rest: script,
        line: 1,
        calls: Vec::new(),
        words: Vec::new(),
        begun: 1,
        word: None,
    };
    while reader.step() {}
    reader.end_call();
    reader.calls
}

struct Reader<'a> {
    file: &'a str,
    rest: &'a str,
    line: usize,
    calls: Vec<Call>,
    words: Vec<String>,
    /// The line of the first word.
    begun: usize,
    word: Option<String>,
}

impl Reader<'_> {
    /// Reads on by one character or one construct.
    fn step(&mut self) -> bool {
        let Some(next) = self.rest.chars().next() else {
            return false;
        };
        match next {
            '\\' if self.rest.starts_with("\\\n") => {
                self.take(2);
                self.end_word();
            }
            ' ' | '\t' => {
                self.take(1);
                self.end_word();
            }
            '#' if self.word.is_none() => {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take(end);
            }
            '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>' => {
                self.take(1);
                self.end_call();
            }
            '\'' => {
                let end = self.rest[1..].find('\'').expect("the quote ends");
                let text = self.rest[1..=end].to_owned();
                self.take(end + 2);
                self.push(&text);
            }
            '"' => self.quoted(),
            '$' => {
                let value = self.variable();
                self.push(&value);
            }
            _ => {
                self.take(next.len_utf8());
                self.push(next.encode_utf8(&mut [0; 4]));
            }
        }
        true
    }

    fn quoted(&mut self) {
        self.take(1);
        self.push("");
        loop {
            match self.rest.chars().next().expect("the quote ends") {
                '"' => return self.take(1),
                '$' => {
                    let value = self.variable();
                    self.push(&value);
                }
                next => {
                    self.take(next.len_utf8());
                    self.push(next.encode_utf8(&mut [0; 4]));
                }
            }
        }
    }

    /// The value of `$NAME`, `${NAME...}` or `$(...)`.
    fn variable(&mut self) -> String {
        let rest = &self.rest[1..];
        if let Some(inside) = rest.strip_prefix('(') {
            let end = closing(inside, '(', ')');
            self.take(end + 3);
            return "0".to_owned();
        }
        let braced = rest.strip_prefix('{');
        let name = braced.unwrap_or(rest);
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = &name[..end.unwrap_or(name.len())];
        let long = match braced {
            Some(inside) => closing(inside, '{', '}') + 3,
            None => name.len() + 1,
        };
        let value = VALUES.iter().find(|(known, _)| *known == name);
        let value = value.map_or_else(|| format!("${name}"), |(_, value)| (*value).to_owned());
        self.take(long);
        value
    }

    fn take(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
    }

    fn push(&mut self, text: &str) {
        if self.word.is_none() && self.words.is_empty() {
            self.begun = self.line;
        }
        self.word.get_or_insert_default().push_str(text);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end_call(&mut self) {
        self.end_word();
        if !self.words.is_empty() {
            self.calls.push(Call {
                place: format!("{}:{}", self.file, self.begun),
                words: std::mem::take(&mut self.words),
            });
        }
    }
}

/// Where what was opened is closed.
fn closing(inside: &str, open: char, close: char) -> usize {
    let mut depth = 1;
    let end = inside.find(|c| {
        depth += i32::from(c == open) - i32::from(c == close);
        depth == 0
    });
    end.expect("it is closed")
}

#[test]
fn scripts_are_read_as_a_shell_would() {
    let words = |script: &str| -> Vec<Vec<String>> {
        let calls = of_script("s", script);
        calls.into_iter().map(|call| call.words).collect()
    };
    assert_eq!(
        words("a --b 'c d' \"e $port\" \\\n  f # no\ng|h;i && j > k"),
        [
            &["a", "--b", "c d", "e 9700", "f"][..],
            &["g"],
            &["h"],
            &["i"],
            &["j"],
            &["k"]
        ]
    );
    assert_eq!(
        words("a=$(b \"$(c)\") \"${port:-1}x\" \"\""),
        [["a=0", "9700x", ""]]
    );
    let page = "text `ridgeline bench --mock` and `kubectl get`\n\n```sh\nsrun --x ridgeline \\\n  \
                worker --once &\ndocker build -t ridgeline .\ndocker run ridgeline --version\n```\n\
                ```text\nridgeline no\n```\n";
    let calls = of_page("p", page);
    let ours: Vec<(&str, Vec<&str>)> = calls
        .iter()
        .filter_map(|call| {
            let arguments = call.of_ridgeline()?;
            Some((
                call.place.as_str(),
                arguments.iter().map(String::as_str).collect(),
            ))
        })
        .collect();
    assert_eq!(
        ours,
        [
            ("p:1:1", vec!["bench", "--mock"]),
            ("p:4", vec!["worker", "--once"]),
            ("p:7", vec!["--version"]),
        ]
    );
}
