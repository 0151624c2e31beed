use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// How a bare program is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Programs {
    /// Each is a program of its own in this folder.
    Folder(PathBuf),
    /// All are subcommands of this program's `ceiling`, as of ridgeline's.
    Within(PathBuf),
}

impl Programs {
    /// The program of this name (`bare-client`, `bare-server`, `bare-sleeper`), to be given flags.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let (program, args) = self.words(name);
        let mut command = Command::new(program);
        command.args(args);
        command
    }

    /// The program to start, and the arguments that come before its flags.
    pub(crate) fn words(&self, name: &str) -> (PathBuf, Vec<OsString>) {
        match self {
            Self::Folder(folder) => (folder.join(name), Vec::new()),
            Self::Within(program) => {
                let words = ["ceiling", name].map(OsString::from);
                (program.clone(), words.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_program_is_found_in_a_folder_or_in_another_program() {
        let words = |programs: Programs| {
            let (program, args) = programs.words("bare-server");
            let args: Vec<String> = args
                .into_iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            format!("{} {}", program.display(), args.join(" "))
        };
        assert_eq!(words(Programs::Folder("bin".into())), "bin/bare-server ");
        assert_eq!(
            words(Programs::Within("bin/ridgeline".into())),
            "bin/ridgeline ceiling bare-server"
        );
    }
}
