//! The part of the Kubernetes API that the manifests use. Every key is known or the manifest fails:
//! the API server would say the same, but only where there is a cluster.
#![expect(
    dead_code,
    reason = "many a field is there to be known and is not looked at"
)]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) type Labels = BTreeMap<String, String>;

/// Any object, read as what its kind says.
#[derive(Debug)]
pub(crate) enum Object {
    ConfigMap(ConfigMap),
    Service(Named<ServiceSpec>),
    Claim(Named<ClaimSpec>),
    Policy(Named<PolicySpec>),
    Job(Named<JobSpec>),
    Deployment(Named<DeploymentSpec>),
    DaemonSet(Named<DaemonSetSpec>),
    Pod(Named<PodSpec>),
}

impl Object {
    /// Reads one, which must be of a kind and a version that is known.
    pub(crate) fn read(value: &Value) -> Self {
        let word = |key: &str| value[key].as_str().unwrap_or_default();
        match (word("apiVersion"), word("kind")) {
            ("v1", "ConfigMap") => Self::ConfigMap(read(value)),
            ("v1", "Service") => Self::Service(read(value)),
            ("v1", "PersistentVolumeClaim") => Self::Claim(read(value)),
            ("networking.k8s.io/v1", "NetworkPolicy") => Self::Policy(read(value)),
            ("batch/v1", "Job") => Self::Job(read(value)),
            ("apps/v1", "Deployment") => Self::Deployment(read(value)),
            ("apps/v1", "DaemonSet") => Self::DaemonSet(read(value)),
            ("v1", "Pod") => Self::Pod(read(value)),
            (version, kind) => panic!("{version} {kind} is not expected here"),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::ConfigMap(map) => &map.metadata.name,
            Self::Service(object) => &object.metadata.name,
            Self::Claim(object) => &object.metadata.name,
            Self::Policy(object) => &object.metadata.name,
            Self::Job(object) => &object.metadata.name,
            Self::Deployment(object) => &object.metadata.name,
            Self::DaemonSet(object) => &object.metadata.name,
            Self::Pod(object) => &object.metadata.name,
        }
    }

    /// The labels of its pods, and what they are, if it has any.
    pub(crate) fn pods(&self) -> Option<(&Labels, &PodSpec)> {
        let template = match self {
            Self::Job(job) => &job.spec.template,
            Self::Deployment(deployment) => &deployment.spec.template,
            Self::DaemonSet(set) => &set.spec.template,
            Self::Pod(pod) => return Some((&pod.metadata.labels, &pod.spec)),
            _ => return None,
        };
        Some((&template.metadata.labels, &template.spec))
    }
}

/// Reads a part; a mistake is told with the part.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value:#}"))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Named<Spec> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) metadata: Meta,
    pub(crate) spec: Spec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) labels: Labels,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ConfigMap {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) metadata: Meta,
    pub(crate) data: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ServiceSpec {
    #[serde(rename = "clusterIP")]
    pub(crate) cluster_ip: Option<String>,
    #[serde(default)]
    pub(crate) publish_not_ready_addresses: bool,
    pub(crate) selector: Labels,
    pub(crate) ports: Vec<ServicePort>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ServicePort {
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) target_port: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ClaimSpec {
    pub(crate) access_modes: Vec<String>,
    pub(crate) resources: ClaimResources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimResources {
    pub(crate) requests: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PolicySpec {
    pub(crate) pod_selector: Selector,
    pub(crate) policy_types: Vec<String>,
    pub(crate) ingress: Vec<Ingress>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ingress {
    pub(crate) from: Vec<PolicyPeer>,
    pub(crate) ports: Vec<PolicyPort>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PolicyPeer {
    pub(crate) pod_selector: Selector,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyPort {
    pub(crate) protocol: String,
    pub(crate) port: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Selector {
    pub(crate) match_labels: Labels,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct JobSpec {
    pub(crate) completion_mode: Option<String>,
    pub(crate) completions: u32,
    pub(crate) parallelism: u32,
    pub(crate) backoff_limit: Option<u32>,
    pub(crate) backoff_limit_per_index: Option<u32>,
    pub(crate) active_deadline_seconds: u64,
    pub(crate) ttl_seconds_after_finished: u64,
    pub(crate) template: PodTemplate,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeploymentSpec {
    pub(crate) replicas: u32,
    pub(crate) selector: Selector,
    pub(crate) template: PodTemplate,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DaemonSetSpec {
    pub(crate) selector: Selector,
    pub(crate) template: PodTemplate,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PodTemplate {
    pub(crate) metadata: TemplateMeta,
    pub(crate) spec: PodSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplateMeta {
    pub(crate) labels: Labels,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) subdomain: Option<String>,
    pub(crate) restart_policy: Option<String>,
    pub(crate) active_deadline_seconds: Option<u64>,
    pub(crate) automount_service_account_token: bool,
    pub(crate) enable_service_links: bool,
    pub(crate) termination_grace_period_seconds: u64,
    #[serde(default)]
    pub(crate) topology_spread_constraints: Vec<Spread>,
    pub(crate) security_context: PodSecurity,
    pub(crate) containers: Vec<Container>,
    #[serde(default)]
    pub(crate) volumes: Vec<Volume>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Spread {
    pub(crate) max_skew: u32,
    pub(crate) topology_key: String,
    pub(crate) when_unsatisfiable: String,
    pub(crate) label_selector: Selector,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PodSecurity {
    #[serde(default)]
    pub(crate) run_as_non_root: bool,
    pub(crate) run_as_user: u32,
    pub(crate) run_as_group: Option<u32>,
    pub(crate) fs_group: Option<u32>,
    pub(crate) seccomp_profile: SeccompProfile,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "type")]
pub(crate) enum SeccompProfile {
    RuntimeDefault,
    Localhost {
        #[serde(rename = "localhostProfile")]
        profile: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) image_pull_policy: String,
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    pub(crate) working_dir: Option<String>,
    #[serde(default)]
    pub(crate) ports: Vec<ContainerPort>,
    pub(crate) resources: Resources,
    pub(crate) startup_probe: Option<Probe>,
    pub(crate) readiness_probe: Option<Probe>,
    pub(crate) liveness_probe: Option<Probe>,
    pub(crate) security_context: ContainerSecurity,
    #[serde(default)]
    pub(crate) volume_mounts: Vec<Mount>,
}

impl Container {
    /// What is run: the command and its arguments.
    pub(crate) fn words(&self) -> Vec<String> {
        [&self.command[..], &self.args[..]].concat()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ContainerPort {
    pub(crate) name: String,
    pub(crate) container_port: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resources {
    pub(crate) requests: Amounts,
    pub(crate) limits: Amounts,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Amounts {
    pub(crate) cpu: String,
    pub(crate) memory: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Probe {
    pub(crate) tcp_socket: Option<TcpProbe>,
    pub(crate) http_get: Option<HttpProbe>,
    pub(crate) initial_delay_seconds: Option<u32>,
    pub(crate) period_seconds: u32,
    pub(crate) timeout_seconds: Option<u32>,
    pub(crate) failure_threshold: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TcpProbe {
    pub(crate) port: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpProbe {
    pub(crate) path: String,
    pub(crate) port: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ContainerSecurity {
    pub(crate) allow_privilege_escalation: bool,
    pub(crate) read_only_root_filesystem: bool,
    pub(crate) capabilities: Capabilities,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capabilities {
    pub(crate) drop: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Mount {
    pub(crate) name: String,
    pub(crate) mount_path: String,
    #[serde(default)]
    pub(crate) read_only: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) secret: Option<SecretVolume>,
    pub(crate) config_map: Option<ConfigMapVolume>,
    pub(crate) empty_dir: Option<EmptyDir>,
    pub(crate) persistent_volume_claim: Option<ClaimVolume>,
    pub(crate) host_path: Option<HostPath>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SecretVolume {
    pub(crate) secret_name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigMapVolume {
    pub(crate) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct EmptyDir {
    pub(crate) size_limit: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ClaimVolume {
    pub(crate) claim_name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostPath {
    pub(crate) path: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
}
