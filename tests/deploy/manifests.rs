//! The manifests by themselves: that each is whole, and that they fit one another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::kubernetes::{
    Container, JobSpec, Labels, Named, Object, PodSpec, SeccompProfile, Selector, ServiceSpec,
};
use crate::kustomize::{Rendered, documents, manifests, render, root, text};

/// Every folder that is applied as a whole.
pub(crate) const FOLDERS: [&str; 4] = ["base", "io-uring", "seccomp", "trial"];

/// Applied by itself, when its time has come.
const ALONE: &str = "results-reader.yaml";

/// What `kubectl apply` would be given, all in one.
pub(crate) fn everything() -> Rendered {
    let mut all = Rendered::default();
    for folder in FOLDERS {
        let rendered = render(folder);
        all.objects.extend(rendered.objects);
        all.files.extend(rendered.files);
    }
    let alone = manifests().join(ALONE).canonicalize().unwrap();
    all.objects
        .extend(documents(&alone).iter().map(Object::read));
    all.files.insert(alone);
    all
}

/// The containers of everything, each with its pod.
pub(crate) fn containers(objects: &[Object]) -> Vec<(&PodSpec, &Container)> {
    let pods = objects.iter().filter_map(Object::pods);
    pods.flat_map(|(_, pod)| pod.containers.iter().map(move |container| (pod, container)))
        .collect()
}

fn job<'a>(objects: &'a [Object], name: &str) -> &'a Named<JobSpec> {
    let mut jobs = objects.iter().filter_map(|object| match object {
        Object::Job(job) if job.metadata.name == name => Some(job),
        _ => None,
    });
    jobs.next().unwrap_or_else(|| panic!("no job is {name}"))
}

fn service<'a>(objects: &'a [Object], name: &str) -> &'a Named<ServiceSpec> {
    let mut services = objects.iter().filter_map(|object| match object {
        Object::Service(service) if service.metadata.name == name => Some(service),
        _ => None,
    });
    services
        .next()
        .unwrap_or_else(|| panic!("no service is {name}"))
}

/// The value of `--NAME=VALUE` among the arguments.
pub(crate) fn flag<'a>(container: &'a Container, name: &str) -> &'a str {
    let prefix = format!("--{name}=");
    let mut values = container
        .args
        .iter()
        .filter_map(|a| a.strip_prefix(&prefix));
    values
        .next()
        .unwrap_or_else(|| panic!("{} has no --{name}=", container.name))
}

#[test]
fn every_file_is_used_and_holds_no_secret() {
    let all = everything();
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    let mut folders = vec![manifests().canonicalize().unwrap()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    assert_eq!(files, all.files, "on the disk, and applied");
    // `Object::read` knows no Secret; nor may one hide in a file of another name.
    for path in files {
        assert!(
            !text(&path).contains("kind: Secret"),
            "{}: a token is made where it is used",
            path.display()
        );
    }
}

#[test]
fn selectors_choose_the_pods_they_are_meant_for() {
    for folder in FOLDERS {
        let objects = render(folder).objects;
        let chosen = |selector: &Labels| -> Vec<&str> {
            let is_chosen =
                |labels: &Labels| selector.iter().all(|(k, v)| labels.get(k) == Some(v));
            let pods = objects
                .iter()
                .filter(|object| object.pods().is_some_and(|(labels, _)| is_chosen(labels)));
            pods.map(Object::name).collect()
        };
        let of = |selector: &Selector| chosen(&selector.match_labels);
        for object in &objects {
            match object {
                // A name of its own for each service; the pods behind it are one workload's.
                Object::Service(service) => assert_eq!(chosen(&service.spec.selector).len(), 1),
                Object::Deployment(own) => {
                    assert_eq!(of(&own.spec.selector), [own.metadata.name.as_str()]);
                }
                Object::DaemonSet(own) => {
                    assert_eq!(of(&own.spec.selector), [own.metadata.name.as_str()]);
                }
                Object::Job(own) => {
                    for spread in &own.spec.template.spec.topology_spread_constraints {
                        assert_eq!(of(&spread.label_selector), [own.metadata.name.as_str()]);
                    }
                }
                Object::Policy(policy) => {
                    assert_eq!(of(&policy.spec.pod_selector), ["ridgeline-worker"]);
                    let [ingress] = &policy.spec.ingress[..] else {
                        panic!("one rule lets somebody in");
                    };
                    let [from] = &ingress.from[..] else {
                        panic!("one kind of pod is let in");
                    };
                    assert_eq!(of(&from.pod_selector), ["ridgeline-coordinator"]);
                }
                Object::ConfigMap(_) | Object::Claim(_) | Object::Pod(_) => {}
            }
        }
    }
}

#[test]
fn ports_have_the_names_and_numbers_that_are_asked_for() {
    let mut ports_seen = 0;
    for folder in FOLDERS {
        let objects = render(folder).objects;
        let mut ports: BTreeMap<(&str, &str), u16> = BTreeMap::new();
        for (labels, pod) in objects.iter().filter_map(Object::pods) {
            let component = labels["app.kubernetes.io/component"].as_str();
            for container in &pod.containers {
                for port in &container.ports {
                    ports.insert((component, port.name.as_str()), port.container_port);
                    ports_seen += 1;
                }
                let probes = [
                    &container.startup_probe,
                    &container.readiness_probe,
                    &container.liveness_probe,
                ];
                for probe in probes.into_iter().flatten() {
                    let tcp = probe.tcp_socket.as_ref().map(|tcp| &tcp.port);
                    let http = probe.http_get.as_ref().map(|http| &http.port);
                    let port = tcp.xor(http);
                    let port = port.expect("a probe asks for something");
                    assert!(ports.contains_key(&(component, port.as_str())), "{port}");
                }
            }
        }
        for object in &objects {
            match object {
                Object::Service(service) => {
                    let component = service.spec.selector["app.kubernetes.io/component"].as_str();
                    for port in &service.spec.ports {
                        // The same number on both sides: a headless service translates none.
                        let number = ports.get(&(component, port.target_port.as_str()));
                        assert_eq!(number, Some(&port.port), "{}", service.metadata.name);
                    }
                }
                Object::Policy(policy) => {
                    for port in &policy.spec.ingress[0].ports {
                        assert_eq!(port.protocol, "TCP");
                        assert!(ports.contains_key(&("worker", port.port.as_str())));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(ports_seen >= 3, "a worker's, twice, and the mock server's");
}

#[test]
fn volumes_are_there_and_every_path_lies_in_one() {
    let page = text(&root().join("deploy/README.md"));
    let all = everything().objects;
    let has = |kind: &dyn Fn(&Object) -> bool, name: &str| {
        all.iter()
            .any(|object| kind(object) && object.name() == name)
    };
    for (pod, container) in containers(&all) {
        let named: BTreeSet<&str> = pod
            .volumes
            .iter()
            .map(|volume| volume.name.as_str())
            .collect();
        assert_eq!(named.len(), pod.volumes.len(), "two volumes have one name");
        let mounts = container.volume_mounts.iter();
        let mounted: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();
        assert_eq!(named, mounted, "{}: volumes and mounts", container.name);
        for volume in &pod.volumes {
            let mut sources = 0;
            if let Some(secret) = &volume.secret {
                let made = format!(
                    "create secret generic {} --from-file=token=",
                    secret.secret_name
                );
                assert!(
                    page.contains(&made),
                    "deploy/README.md does not say: {made}"
                );
                sources += 1;
            }
            if let Some(map) = &volume.config_map {
                assert!(has(
                    &|object| matches!(object, Object::ConfigMap(_)),
                    &map.name
                ));
                sources += 1;
            }
            if let Some(claim) = &volume.persistent_volume_claim {
                assert!(has(
                    &|object| matches!(object, Object::Claim(_)),
                    &claim.claim_name
                ));
                sources += 1;
            }
            sources += usize::from(volume.empty_dir.is_some());
            sources += usize::from(volume.host_path.is_some());
            assert_eq!(sources, 1, "{}", volume.name);
        }
        if container.command[0] != "ridgeline" {
            continue;
        }
        let paths = container.args.iter().map(|argument| {
            let value = argument
                .split_once('=')
                .map_or(argument.as_str(), |(_, value)| value);
            value.starts_with('/').then_some(value)
        });
        for path in paths.flatten().chain(container.working_dir.as_deref()) {
            let holds = |mount: &&crate::kubernetes::Mount| {
                path.strip_prefix(&mount.mount_path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let mount = container.volume_mounts.iter().find(holds);
            let mount = mount.unwrap_or_else(|| panic!("{path} lies in no volume"));
            // What is read is mounted so; what is written to is not.
            let is_written = ["/data", "/results"].contains(&mount.mount_path.as_str());
            assert_eq!(mount.read_only, !is_written, "{path}");
        }
    }
}

#[test]
fn the_coordinator_names_every_worker_as_the_cluster_does() {
    for folder in ["base", "io-uring"] {
        let objects = render(folder).objects;
        let workers = job(&objects, "ridgeline-worker");
        let spec = &workers.spec;
        assert_eq!(spec.completion_mode.as_deref(), Some("Indexed"));
        assert_eq!(
            spec.completions, spec.parallelism,
            "all of them at one time"
        );
        let pod = &spec.template.spec;
        let service = service(&objects, pod.subdomain.as_deref().unwrap());
        assert_eq!(service.spec.cluster_ip.as_deref(), Some("None"), "headless");
        assert!(service.spec.publish_not_ready_addresses);
        let [worker] = &pod.containers[..] else {
            panic!("a worker shares its cores with no other container");
        };
        let port = worker.ports[0].container_port;
        assert_eq!(flag(worker, "listen"), format!("tcp://0.0.0.0:{port}"));
        assert!(
            worker.args.contains(&"--once".to_owned()),
            "or the job never ends"
        );
        let coordinator = job(&objects, "ridgeline-coordinator");
        let container = &coordinator.spec.template.spec.containers[0];
        let names = (0..spec.completions).map(|index| {
            let (job, service) = (&workers.metadata.name, &service.metadata.name);
            format!("tcp://{job}-{index}.{service}:{port}")
        });
        let names: Vec<String> = names.collect();
        let given: Vec<&str> = flag(container, "workers").split(',').collect();
        assert_eq!(given, names);
        assert_eq!(flag(container, "token-file"), flag(worker, "token-file"));
        assert!(
            flag(worker, "token-file").ends_with("/token"),
            "the secret's key"
        );
    }
}

#[test]
fn a_failure_is_not_repeated_and_takes_no_other_worker_with_it() {
    let objects = render("base").objects;
    let workers = job(&objects, "ridgeline-worker");
    // A limit for all indices together would end every worker at the first failure.
    assert_eq!(workers.spec.backoff_limit_per_index, Some(0));
    assert_eq!(workers.spec.backoff_limit, None);
    let pod = &workers.spec.template.spec;
    assert_eq!(pod.restart_policy.as_deref(), Some("Never"));
    // Nothing asks a worker anything while it measures.
    assert!(
        pod.containers[0].liveness_probe.is_none() && pod.containers[0].readiness_probe.is_none()
    );
    assert!(pod.containers[0].startup_probe.is_some());
    let coordinator = job(&objects, "ridgeline-coordinator");
    assert_eq!(coordinator.spec.backoff_limit, Some(0));
    let restart = &coordinator.spec.template.spec.restart_policy;
    assert_eq!(restart.as_deref(), Some("Never"));
    assert_eq!(
        coordinator.spec.active_deadline_seconds,
        workers.spec.active_deadline_seconds
    );
}

#[test]
fn pods_get_whole_cores_of_their_own_and_no_rights() {
    let dockerfile = text(&root().join("deploy/Dockerfile"));
    for (pod, container) in containers(&everything().objects) {
        let name = &container.name;
        let Container {
            resources,
            security_context: rights,
            ..
        } = container;
        assert_eq!(resources.requests, resources.limits, "{name}: guaranteed");
        if container.command[0] == "ridgeline" {
            let cores = resources.limits.cpu.parse::<u32>();
            assert!(cores.is_ok_and(|cores| cores > 0), "{name}: whole cores");
        }
        assert!(!rights.allow_privilege_escalation && rights.read_only_root_filesystem);
        assert_eq!(rights.capabilities.drop, ["ALL"], "{name}");
        assert!(!pod.automount_service_account_token, "{name}");
        assert!(!pod.enable_service_links, "{name}");
        if name == "installer" {
            // It writes where only root may.
            assert_eq!(pod.run_as_user(), 0);
        } else {
            assert!(pod.security_context.run_as_non_root, "{name}");
            let user = format!("USER {0}:{0}\n", pod.run_as_user());
            assert!(dockerfile.contains(&user), "{name}: the image's {user}");
        }
    }
}

impl PodSpec {
    fn run_as_user(&self) -> u32 {
        self.security_context.run_as_user
    }
}

#[test]
fn the_seccomp_profile_is_installed_where_pods_look_for_it() {
    let installed = render("seccomp").objects;
    let (_, pod) = installed.iter().find_map(Object::pods).unwrap();
    let host = pod
        .volumes
        .iter()
        .find_map(|volume| volume.host_path.as_ref());
    let host = host.unwrap();
    let script = &pod.containers[0].args[0];
    let at = |name: &str| {
        let mounts = pod.containers[0].volume_mounts.iter();
        let mut paths = mounts.filter(|mount| mount.name == name);
        paths.next().unwrap().mount_path.as_str()
    };
    assert!(script.contains(&format!(
        "{}/ridgeline.json {}/ridgeline.json",
        at("profile"),
        at("host")
    )));
    let map = installed.iter().find_map(|object| match object {
        Object::ConfigMap(map) => Some(&map.data),
        _ => None,
    });
    assert!(map.unwrap().contains_key("ridgeline.json"));
    let profiles = |folder: &str| -> Vec<Option<String>> {
        let objects = render(folder).objects;
        let pods = objects.iter().filter_map(Object::pods);
        pods.map(|(_, pod)| match &pod.security_context.seccomp_profile {
            SeccompProfile::RuntimeDefault => None,
            SeccompProfile::Localhost { profile } => {
                Some(format!("/var/lib/kubelet/seccomp/{profile}"))
            }
        })
        .collect()
    };
    assert_eq!(profiles("base"), [None::<String>, None]);
    let profile = Some(format!("{}/ridgeline.json", host.path));
    assert_eq!(profiles("io-uring"), [profile.clone(), profile]);
}
