//! The files of a machine, under any root.

use std::fs;
use std::path::{Path, PathBuf};

use super::parse::{self, Interrupt};
use super::{Core, Device, Topology};

/// No kernel is built for more cores.
const CORES_MAX: usize = 8_192;

pub(super) fn topology(root: &Path) -> Topology {
    let cpus = root.join("sys/devices/system/cpu");
    let interrupts = parse::interrupts(&text(&root.join("proc/interrupts")));
    let found = devices(&root.join("sys/class/net"));
    let serving = parse::serving(interrupts.iter().filter(|interrupt| {
        found
            .iter()
            .any(|(device, of)| of_device(interrupt, device, of))
    }));
    let isolated = list(&cpus.join("isolated"));
    let nodes = nodes(&root.join("sys/devices/system/node"));
    let core = |id: usize| {
        let topology = cpus.join(format!("cpu{id}/topology"));
        let mut siblings = list(&topology.join("thread_siblings_list"));
        if siblings.is_empty() {
            siblings.push(id);
        }
        let node = nodes.iter().find(|(_, cores)| cores.contains(&id));
        Core {
            id,
            siblings,
            node: node.map(|(node, _)| *node),
            isolated: isolated.contains(&id),
            interrupted: serving.contains(&id),
        }
    };
    Topology {
        cores: list(&cpus.join("online")).into_iter().map(core).collect(),
        devices: found.into_iter().map(|(device, _)| device).collect(),
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn list(path: &Path) -> Vec<usize> {
    parse::list(&text(path), CORES_MAX)
}

/// What is in a folder, by name.
fn entries(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

/// NUMA nodes, and the cores of each.
fn nodes(path: &Path) -> Vec<(usize, Vec<usize>)> {
    let node = |path: PathBuf| {
        let number = name(&path).strip_prefix("node")?.parse().ok()?;
        Some((number, list(&path.join("cpulist"))))
    };
    entries(path).into_iter().filter_map(node).collect()
}

/// Devices of the network that stand for hardware, and the numbers of their interrupts.
fn devices(path: &Path) -> Vec<(Device, Vec<u32>)> {
    let device = |path: PathBuf| {
        let hardware = path.join("device");
        if !hardware.exists() {
            return None;
        }
        // What is said of a virtio device is said of its bus's.
        let node = |file: &str| text(&hardware.join(file)).trim().parse().ok();
        let found = Device {
            name: name(&path).to_owned(),
            // -1: the firmware does not say.
            node: node("numa_node").or_else(|| node("../numa_node")),
        };
        let numbers = |folder: &str| -> Vec<u32> {
            let files = entries(&hardware.join(folder));
            files
                .iter()
                .filter_map(|file| name(file).parse().ok())
                .collect()
        };
        let mut interrupts = numbers("msi_irqs");
        interrupts.extend(numbers("../msi_irqs"));
        Some((found, interrupts))
    };
    entries(path).into_iter().filter_map(device).collect()
}

/// Whether an interrupt is a device's: by its number, else by its name, which begins with the device's.
fn of_device(interrupt: &Interrupt, device: &Device, numbers: &[u32]) -> bool {
    if numbers.is_empty() {
        return interrupt.name.starts_with(&device.name);
    }
    numbers.contains(&interrupt.number)
}
