use rustix::process::{Resource, Rlimit};

/// Raises this process's soft limit on descriptors (RLIMIT_NOFILE) to the hard one, and says where it
/// is now: how many files one table may hold. A ring has a table of its own, everything else shares the
/// process's.
pub fn raise_descriptor_limit() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match rustix::process::setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = rustix::process::getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_descriptor_limit(), hard.unwrap_or(u64::MAX));
        assert_eq!(rustix::process::getrlimit(Resource::Nofile).current, hard);
        // And once more is nothing.
        assert_eq!(raise_descriptor_limit(), hard.unwrap_or(u64::MAX));
    }
}
