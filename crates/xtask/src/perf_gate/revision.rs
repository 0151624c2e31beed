//! Which revisions are compared, and their sources.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One side's sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Revision {
    /// A commit, by its full name.
    Commit(String),
    /// The files as they stand in the work tree, committed or not.
    WorkingTree,
}

impl Revision {
    /// The commit that `name` means in this repository.
    pub(crate) fn commit(root: &Path, name: &str) -> io::Result<Self> {
        let spec = format!("{name}^{{commit}}");
        let commit = git(
            root,
            &[
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &spec,
            ],
        );
        match commit {
            Ok(commit) => Ok(Self::Commit(commit)),
            Err(_) => Err(io::Error::other(format!(
                "{name:?} names no commit here; a shallow clone lacks those before it"
            ))),
        }
    }

    /// What a change is compared with where nothing is said: the last commit that `head` shares with
    /// the main branch; on the main branch itself the commit before, unless there are changes to compare.
    pub(crate) fn default_base(root: &Path, head: &Self) -> io::Result<Self> {
        let tip = match head {
            Self::Commit(commit) => commit.as_str(),
            Self::WorkingTree => "HEAD",
        };
        let shared = ["origin/main", "main"]
            .into_iter()
            .find_map(|main| git(root, &["merge-base", main, tip]).ok());
        let Some(shared) = shared else {
            return Err(io::Error::other(
                "no branch main to compare with: name a revision with --base",
            ));
        };
        let same = git(root, &["rev-parse", tip])? == shared;
        let changed = *head == Self::WorkingTree
            && !git(root, &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
        if same && !changed {
            return Self::commit(root, &format!("{shared}^"));
        }
        Ok(Self::Commit(shared))
    }

    /// A short name, also of its folder.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Commit(commit) => commit.chars().take(12).collect(),
            Self::WorkingTree => "working-tree".to_owned(),
        }
    }
}

/// The folder with a revision's files: the work tree itself, or else `folder`.
///
/// That one is a clone, which has its objects from this repository and is not known to it. It stays, since files that
/// are the same in the next revision are left alone, and what was built from them before is then still good.
pub(crate) fn check_out(root: &Path, revision: &Revision, folder: &Path) -> io::Result<PathBuf> {
    let Revision::Commit(commit) = revision else {
        return Ok(root.to_owned());
    };
    if !folder.join(".git").exists() {
        let [from, to] = [root, folder].map(|path| path.display().to_string());
        let clone = ["clone", "--quiet", "--shared", "--no-checkout", &from, &to];
        git(root, &clone)?;
    }
    let checkout = ["checkout", "--quiet", "--force", "--detach", commit];
    git(folder, &checkout)?;
    git(folder, &["clean", "--quiet", "-ffdx"])?;
    Ok(folder.to_owned())
}

/// The folder of the work tree that this process runs in.
pub(crate) fn root() -> io::Result<PathBuf> {
    git(Path::new("."), &["rev-parse", "--show-toplevel"]).map(PathBuf::from)
}

/// What git answers, without the end of its last line.
pub(crate) fn git(root: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .output()
        .map_err(|error| io::Error::other(format!("cannot start git: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let what = arguments.first().unwrap_or(&"");
        return Err(io::Error::other(format!("git {what}: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A repository with two commits on main and one on a branch of it.
    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let git = |arguments: &[&str]| git(root, arguments).unwrap();
        git(&["init", "--quiet", "--initial-branch", "main"]);
        git(&["config", "user.name", "nobody"]);
        git(&["config", "user.email", "nobody@example.invalid"]);
        for text in ["first", "second"] {
            fs::write(root.join("file"), text).unwrap();
            git(&["add", "file"]);
            git(&["commit", "--quiet", "--message", text]);
        }
        folder
    }

    #[test]
    fn a_base_is_where_the_change_began() {
        let folder = repository();
        let root = folder.path();
        let commit = |name: &str| Revision::commit(root, name).unwrap();
        let head = Revision::WorkingTree;
        let base = || Revision::default_base(root, &head).unwrap();
        assert_eq!(
            base(),
            commit("main^"),
            "nothing changed: the last commit is the change"
        );
        fs::write(root.join("file"), "third").unwrap();
        assert_eq!(base(), commit("main"));
        git(root, &["checkout", "--quiet", "-b", "branch"]).unwrap();
        git(root, &["commit", "--quiet", "--all", "--message", "third"]).unwrap();
        assert_eq!(base(), commit("main"));
        assert_eq!(
            Revision::default_base(root, &commit("branch")).unwrap(),
            commit("main")
        );
        git(root, &["branch", "--quiet", "--move", "main", "trunk"]).unwrap();
        let none = Revision::default_base(root, &head).unwrap_err();
        assert!(none.to_string().contains("--base"), "{none}");
    }

    #[test]
    fn names_are_resolved_and_unknown_ones_refused() {
        let folder = repository();
        let commit = Revision::commit(folder.path(), "HEAD").unwrap();
        assert_eq!(commit.label().len(), 12);
        assert_eq!(Revision::WorkingTree.label(), "working-tree");
        let unknown = Revision::commit(folder.path(), "nowhere").unwrap_err();
        assert!(unknown.to_string().contains("\"nowhere\""), "{unknown}");
        let option = Revision::commit(folder.path(), "--all").unwrap_err();
        assert!(option.to_string().contains("names no commit"), "{option}");
    }

    #[test]
    fn revisions_are_checked_out_one_after_another() {
        let folder = repository();
        let root = folder.path();
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("source");
        let read = || fs::read_to_string(at.join("file")).unwrap();
        let check_out = |name: &str| {
            let commit = Revision::commit(root, name).unwrap();
            assert_eq!(check_out(root, &commit, &at).unwrap(), at);
        };
        check_out("HEAD^");
        assert_eq!(read(), "first");
        fs::write(at.join("left"), "by a build").unwrap();
        check_out("HEAD");
        assert_eq!(read(), "second");
        assert!(!at.join("left").exists());

        // Made after the clone; what it leaves as it was is not written again.
        let modified = || fs::metadata(at.join("file")).unwrap().modified().unwrap();
        let before = modified();
        fs::write(root.join("more"), "third").unwrap();
        git(root, &["add", "more"]).unwrap();
        git(root, &["commit", "--quiet", "--message", "third"]).unwrap();
        check_out("HEAD");
        assert!(at.join("more").exists());
        assert_eq!(modified(), before);
        let trees = git(root, &["worktree", "list", "--porcelain"]).unwrap();
        assert_eq!(trees.matches("worktree ").count(), 1, "{trees}");
    }

    #[test]
    fn the_work_tree_is_taken_as_it_is() {
        let folder = repository();
        let at = folder.path().join("elsewhere");
        let own = check_out(folder.path(), &Revision::WorkingTree, &at).unwrap();
        assert_eq!(own, folder.path());
        assert!(!at.exists());
    }
}
