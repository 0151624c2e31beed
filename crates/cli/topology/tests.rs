use std::fs;
use std::path::Path;

use super::parse::{interrupts, list, serving};
use super::*;

/// A machine of two nodes with four physical cores of two threads each; its network device is at node 1,
/// and its interrupts are served on cores 2 and 3.
fn tree(root: &Path) {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("sys/devices/system/cpu/online", "0-7\n");
    write("sys/devices/system/cpu/isolated", "7\n");
    for core in 0..8 {
        let siblings = format!("{},{}\n", core % 4, core % 4 + 4);
        let file = format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        write(&file, &siblings);
    }
    write("sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
    write("sys/devices/system/node/node1/cpulist", "2-3,6-7\n");
    write("sys/devices/system/node/possible", "0-1\n");
    write("sys/class/net/lo/mtu", "65536\n");
    write("sys/class/net/eth0/device/numa_node", "1\n");
    write("sys/class/net/eth0/device/msi_irqs/40", "msix\n");
    write("sys/class/net/eth0/device/msi_irqs/41", "msix\n");
    let columns = |counts: [u64; 8]| counts.map(|count| format!("{count:>9}")).concat();
    let lines = format!(
        "      {}\n 40: {}  PCI-MSIX-0000:00:03.0 1-edge  eth0-rx-0\n 41: {} PCI-MSIX eth0-rx-1\n 42: {} \
         PCI-MSIX nvme0q1\nLOC: {} Local timer interrupts\nERR:  0\n",
        (0..8).map(|core| format!("CPU{core} ")).collect::<String>(),
        columns([3, 0, 90_000, 0, 0, 0, 0, 0]),
        columns([0, 0, 10, 70_000, 0, 0, 0, 9]),
        columns([0, 900_000, 0, 0, 0, 0, 0, 0]),
        columns([7; 8]),
    );
    write("proc/interrupts", &lines);
}

fn sample() -> Topology {
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path());
    Topology::read(folder.path())
}

#[test]
fn the_kernels_files_are_a_map() {
    let topology = sample();
    assert_eq!(
        topology.describe().unwrap(),
        "8 cores (4 physical), 2 NUMA nodes, 7 isolated; network: eth0 at node 1, interrupts on 2-3"
    );
    assert_eq!(topology.isolated(), [7]);
    assert_eq!(
        Topology::read(Path::new("no/such/root")),
        Topology::default()
    );
    assert_eq!(Topology::default().describe(), None);
}

#[test]
fn cores_are_chosen_apart_near_the_network_and_away_from_its_interrupts() {
    let topology = sample();
    let all = [0, 1, 2, 3, 4, 5, 6, 7];
    let chosen =
        |candidates: &[usize], taken: &[usize], count| topology.choose(candidates, taken, count);
    // 6 and 7 are near, and their other threads serve the interrupts.
    assert_eq!(chosen(&all, &[], 2), Some(vec![6, 7]));
    assert_eq!(chosen(&all, &[], 4), Some(vec![0, 1, 6, 7]));
    // The fifth has to share a physical core.
    assert_eq!(chosen(&all, &[], 5), Some(vec![0, 1, 2, 6, 7]));
    assert_eq!(chosen(&[0, 4, 5], &[0], 1), Some(vec![5]));
    assert_eq!(chosen(&[0, 1], &[], 3), None);
    // Where nothing is known, the first ones.
    let flat = Topology::default();
    assert_eq!(flat.choose(&[3, 5, 8], &[3], 1), Some(vec![5]));
}

#[test]
fn cores_that_were_named_are_doubted() {
    let topology = sample();
    let doubts = |cores: &[usize]| topology.doubts(cores).join("; ");
    assert_eq!(doubts(&[0, 1]), "");
    assert!(doubts(&[0, 1, 4]).contains("cores 0,4 are threads of shared physical cores"));
    assert!(doubts(&[0, 2]).contains("interrupts of the network are served on 2 too"));
    assert_eq!(Topology::default().doubts(&[0, 1]), Vec::<String>::new());
}

#[test]
fn strange_files_are_absences() {
    assert_eq!(list("0-2,5\n", 10), [0, 1, 2, 5]);
    assert_eq!(list("", 10), Vec::<usize>::new());
    assert_eq!(list("x,3-,-4,2-1,9-99999999999", 10), [9, 10]);
    for text in ["", "CPU0\n", "CPU0 CPU1\n 1: 5\n", "CPU0\n x: 1 eth0\n"] {
        assert_eq!(interrupts(text), [], "{text:?}");
    }
    assert_eq!(serving([].into_iter()), Vec::<usize>::new());
}
