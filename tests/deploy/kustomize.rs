//! What `kubectl kustomize` makes of a folder, of the little that the folders of deploy/ ask for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::kubernetes::{Object, read};

/// The top of the checkout.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The manifests' folder.
pub(crate) fn manifests() -> PathBuf {
    root().join("deploy/kubernetes")
}

/// The text of a file below the top of the checkout.
pub(crate) fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every document of a YAML file.
pub(crate) fn documents(path: &Path) -> Vec<Value> {
    let documents = serde_saphyr::from_multiple(&text(path));
    documents.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A folder's objects, and the files that they came from.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    pub(crate) objects: Vec<Object>,
    pub(crate) files: BTreeSet<PathBuf>,
}

/// What a folder comes to, each object read by its kind.
pub(crate) fn render(folder: &str) -> Rendered {
    let mut files = BTreeSet::new();
    let folder = manifests().join(folder).canonicalize();
    let values = values(&folder.expect("the folder is there"), &mut files);
    Rendered {
        objects: values.iter().map(Object::read).collect(),
        files,
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Kustomization {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    resources: Vec<String>,
    #[serde(default)]
    patches: Vec<Patch>,
    #[serde(default)]
    config_map_generator: Vec<Generated>,
    #[serde(default)]
    images: Vec<Image>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generated {
    name: String,
    files: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Image {
    name: String,
    new_name: String,
    new_tag: String,
}

fn values(folder: &Path, files: &mut BTreeSet<PathBuf>) -> Vec<Value> {
    let own = folder.join("kustomization.yaml");
    let parts = documents(&own);
    let [part] = &parts[..] else {
        panic!("{}: one document is expected", own.display());
    };
    files.insert(own);
    let own: Kustomization = read(part);
    assert_eq!(own.api_version, "kustomize.config.k8s.io/v1beta1");
    assert_eq!(own.kind, "Kustomization");
    let mut values = Vec::new();
    for resource in &own.resources {
        let path = folder.join(resource).canonicalize();
        let path = path.unwrap_or_else(|error| panic!("{resource}: {error}"));
        if path.is_dir() {
            values.extend(self::values(&path, files));
        } else {
            values.extend(documents(&path));
            files.insert(path);
        }
    }
    for Generated { name, files: parts } in &own.config_map_generator {
        let data = parts.iter().map(|part| {
            files.insert(folder.join(part));
            (part.clone(), json!(text(&folder.join(part))))
        });
        let data: serde_json::Map<_, _> = data.collect();
        values.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {}}, "data": data,
        }));
    }
    for Patch { path } in &own.patches {
        let path = folder.join(path);
        for patch in documents(&path) {
            let same = |value: &&mut Value| {
                value["kind"] == patch["kind"]
                    && value["metadata"]["name"] == patch["metadata"]["name"]
            };
            let target = values.iter_mut().find(same);
            let target = target.unwrap_or_else(|| panic!("{} patches nothing", path.display()));
            merge(target, &patch);
        }
        files.insert(path);
    }
    for image in &own.images {
        let newly = format!("{}:{}", image.new_name, image.new_tag);
        let renamed = values
            .iter_mut()
            .map(|value| rename_images(value, &image.name, &newly));
        assert!(renamed.sum::<usize>() > 0, "no image is {}", image.name);
    }
    values
}

/// RFC 7396, which is what a strategic merge is where no list is merged.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(keys) = patch else {
        assert!(!patch.is_array(), "a list would be merged by its names");
        *into = patch.clone();
        return;
    };
    for (key, value) in keys {
        merge(&mut into[key], value);
    }
}

fn rename_images(value: &mut Value, from: &str, to: &str) -> usize {
    match value {
        Value::Object(keys) => {
            let mut renamed = 0;
            for (key, value) in keys {
                if key == "image" && value.as_str() == Some(from) {
                    *value = json!(to);
                    renamed += 1;
                } else {
                    renamed += rename_images(value, from, to);
                }
            }
            renamed
        }
        Value::Array(list) => {
            let renamed = list.iter_mut().map(|value| rename_images(value, from, to));
            renamed.sum()
        }
        _ => 0,
    }
}
