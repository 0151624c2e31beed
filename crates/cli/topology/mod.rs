//! The cores of this machine: which of them share a physical core, which memory and which network device they
//! are near, which are kept free of other work, and which serve the network's interrupts.

mod parse;
mod read;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::machine::ranges;

/// What is known of each core. Where the kernel says nothing, cores are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    /// By number.
    cores: Vec<Core>,
    /// Devices of the network that are no fiction of the kernel.
    devices: Vec<Device>,
}

/// One core: a thread of a physical one where there is SMT.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Core {
    id: usize,
    /// Those that share its physical core, itself included.
    siblings: Vec<usize>,
    /// Its NUMA node.
    node: Option<usize>,
    /// The scheduler puts nothing there by itself (isolcpus=).
    isolated: bool,
    /// It serves interrupts of the network.
    interrupted: bool,
}

/// A device of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Device {
    name: String,
    node: Option<usize>,
}

impl Topology {
    /// Of the machine whose files lie under `root`, `/` for this one.
    pub(crate) fn read(root: &Path) -> Self {
        read::topology(root)
    }

    /// Of this machine.
    pub(crate) fn here() -> Self {
        Self::read(Path::new("/"))
    }

    fn core(&self, id: usize) -> Option<&Core> {
        self.cores.iter().find(|core| core.id == id)
    }

    /// The node that all devices of the network are near, if they agree.
    fn network_node(&self) -> Option<usize> {
        let first = self.devices.first()?.node?;
        let agree = self.devices.iter().all(|device| device.node == Some(first));
        agree.then_some(first)
    }

    /// Isolated cores.
    pub(crate) fn isolated(&self) -> Vec<usize> {
        let isolated = self.cores.iter().filter(|core| core.isolated);
        isolated.map(|core| core.id).collect()
    }

    /// The best `count` of `candidates` for threads that must not wait, beside those that are `taken`; none
    /// where there are fewer. Best: on a physical core of its own, near the network's device, without
    /// its interrupts, and the first of them.
    pub(crate) fn choose(
        &self,
        candidates: &[usize],
        taken: &[usize],
        count: usize,
    ) -> Option<Vec<usize>> {
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < count {
            let used = |id: &usize| chosen.contains(id) || taken.contains(id);
            let shares = |id: usize| {
                let siblings = self
                    .core(id)
                    .map_or(&[][..], |core| core.siblings.as_slice());
                siblings.iter().any(used)
            };
            let free = candidates.iter().copied().filter(|id| !used(id));
            let best = free.min_by_key(|&id| (shares(id), self.is_far(id), self.is_busy(id)))?;
            chosen.push(best);
        }
        chosen.sort_unstable();
        Some(chosen)
    }

    /// Whether a core is at another node than the network's devices.
    fn is_far(&self, id: usize) -> bool {
        let node = self.core(id).and_then(|core| core.node);
        match (node, self.network_node()) {
            (Some(node), Some(network)) => node != network,
            _ => false,
        }
    }

    fn is_busy(&self, id: usize) -> bool {
        self.core(id).is_some_and(|core| core.interrupted)
    }

    /// What is wrong with these cores for threads that must not wait.
    pub(crate) fn doubts(&self, cores: &[usize]) -> Vec<String> {
        let mut doubts = Vec::new();
        let shares = |id: &&usize| {
            let siblings = self
                .core(**id)
                .map_or(&[][..], |core| core.siblings.as_slice());
            siblings
                .iter()
                .any(|sibling| sibling != *id && cores.contains(sibling))
        };
        let sharing: Vec<usize> = cores.iter().filter(shares).copied().collect();
        if !sharing.is_empty() {
            doubts.push(format!(
                "cores {} are threads of shared physical cores (SMT): each has about half of one; --cores \
                 auto takes one of each",
                ranges(&sharing)
            ));
        }
        let is_else = |core: &Core| !core.interrupted && !cores.contains(&core.id);
        let busy: Vec<usize> = cores
            .iter()
            .copied()
            .filter(|&id| self.is_busy(id))
            .collect();
        // Where no core is free of them there is nothing to advise.
        if !busy.is_empty() && self.cores.iter().any(is_else) {
            doubts.push(format!(
                "interrupts of the network are served on {} too, and hold up what runs there; --cores auto \
                 takes others",
                ranges(&busy)
            ));
        }
        doubts
    }

    /// In one line: `4 cores (2 physical), 1 NUMA node, none isolated; eth0 at node 0, interrupts on 0-1`.
    pub(crate) fn describe(&self) -> Option<String> {
        let count = self.cores.len();
        let first = |core: &&Core| core.siblings.first() == Some(&core.id);
        let physical = self.cores.iter().filter(first).count();
        let smt = if physical > 0 && physical < count {
            format!(" ({physical} physical)")
        } else {
            String::new()
        };
        let mut nodes: Vec<usize> = self.cores.iter().filter_map(|core| core.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let nodes = match nodes.len() {
            0 => String::new(),
            1 => ", 1 NUMA node".to_owned(),
            several => format!(", {several} NUMA nodes"),
        };
        let isolated = match self.isolated() {
            none if none.is_empty() => ", none isolated".to_owned(),
            some => format!(", {} isolated", ranges(&some)),
        };
        let plural = if count == 1 { "" } else { "s" };
        let cores = format!("{count} core{plural}{smt}{nodes}{isolated}");
        (count > 0).then(|| cores + &self.network_words())
    }

    fn network_words(&self) -> String {
        let named = |device: &Device| match device.node {
            Some(node) => format!("{} at node {node}", device.name),
            None => device.name.clone(),
        };
        let mut words: Vec<String> = self.devices.iter().map(named).collect();
        let busy = self.cores.iter().filter(|core| core.interrupted);
        let busy: Vec<usize> = busy.map(|core| core.id).collect();
        if !busy.is_empty() {
            words.push(format!("interrupts on {}", ranges(&busy)));
        }
        if words.is_empty() {
            return String::new();
        }
        format!("; network: {}", words.join(", "))
    }
}
