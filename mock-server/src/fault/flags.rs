use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::catalogue::{Failure, Kind};
use super::choose::Faults;
use super::grammar::{Fault, FaultRule, RATE_ALL, When, rate};

/// What goes wrong on purpose.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Faults")]
pub struct FaultArgs {
    /// What the flags below ask for together.
    #[command(flatten)]
    pub(crate) faults: Faults,
    /// What goes wrong and when, `NAME[:KEY=VALUE,...][@RATE%|@N|@every=N|@first=N]`, as
    /// stall-after-event:at=3@5%; may be given several times
    #[arg(long = "fault", value_name = "FAULT")]
    pub fault: Vec<FaultRule>,
    /// How many of a hundred requests fail in one of the ways of --failure-types
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = share)]
    pub failure_injection_rate: Share,
    /// The ways, by commas [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = failure)]
    pub failure_types: Vec<FailureType>,
    /// Seed of the draws for faults that have a rate
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub fault_seed: u64,
}

/// `--failure-injection-rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u64);

/// One of `--failure-types`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureType(Failure);

fn share(percent: &str) -> Result<Share, String> {
    if percent == "0" {
        return Ok(Share(0));
    }
    let share = rate(percent).ok_or("expected a number from 0 to 100")?;
    Ok(Share(share))
}

fn failure(name: &str) -> Result<FailureType, String> {
    match Kind::of(name) {
        Some((Kind::Failure(failure), _)) => Ok(FailureType(failure)),
        _ => {
            let names = Failure::ALL.map(|failure| Kind::Failure(failure).to_string());
            Err(format!("expected one of {}", names.join(", ")))
        }
    }
}

/// As clap arguments it is none: it looks at the others, before they are taken away.
impl Args for Faults {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Faults {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = matches.get_many::<FaultRule>("fault");
        let mut rules: Vec<_> = given.into_iter().flatten().cloned().collect();
        let types = matches.get_many::<FailureType>("failure_types");
        let mut types: Vec<_> = types.into_iter().flatten().map(|one| one.0).collect();
        if types.is_empty() {
            types.extend(Failure::ALL);
        }
        let share = matches.get_one::<Share>("failure_injection_rate");
        if let Some(Share(share @ 1..)) = share {
            rules.extend(split(*share, &types));
        }
        let seed = matches.get_one("fault_seed").copied().unwrap_or_default();
        Self::new(rules, seed)
            .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// One rule for each type, which have the same share to a millionth of a percent.
fn split(share: u64, types: &[Failure]) -> impl Iterator<Item = FaultRule> {
    let count = types.len() as u64;
    let shares = (0..count).map(move |index| (share + index) / count);
    let rules = types.iter().zip(shares);
    rules.map(|(failure, share)| FaultRule {
        fault: Fault::new(Kind::Failure(*failure)),
        when: When::Rate(share.min(RATE_ALL)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        args: FaultArgs,
    }

    fn parse(flags: &[&str]) -> Result<Faults, String> {
        let flags = Flags::try_parse_from([&["x"], flags].concat());
        let flags = flags.map_err(|error| error.to_string())?;
        Ok(flags.args.faults)
    }

    fn rules(rules: &[&str]) -> Faults {
        Faults::new(rules.iter().map(|rule| rule.parse().unwrap()).collect(), 0).unwrap()
    }

    #[test]
    fn flags_are_rules() {
        assert_eq!(parse(&[]), Ok(Faults::default()));
        assert_eq!(
            parse(&["--fault", "nul@5%", "--fault", "drip:gap=1ms"]),
            Ok(rules(&["nul@5%", "drip:gap=1ms"]))
        );
        assert_eq!(
            parse(&[
                "--failure-injection-rate=30",
                "--failure-types=rate_limit,server_error"
            ]),
            Ok(rules(&["rate_limit@15%", "server_error@15%"]))
        );
        let all = parse(&["--failure-injection-rate", "100"]).unwrap();
        assert_ne!(all, parse(&["--failure-injection-rate", "99"]).unwrap());
    }

    #[test]
    fn shares_add_up() {
        for share in [1, 7, 100, RATE_ALL - 1, RATE_ALL] {
            let shares = split(share, &Failure::ALL).map(|rule| match rule.when {
                When::Rate(share) => share,
                _ => panic!("a share"),
            });
            assert_eq!(shares.sum::<u64>(), share);
        }
    }

    #[test]
    fn wrong_flags_are_told() {
        for (flags, told) in [
            (&["--fault", "drop"][..], "did you mean drip?"),
            (&["--failure-injection-rate=101"], "from 0 to 100"),
            (&["--failure-types=nul"], "expected one of rate_limit"),
            (&["--fault=nul@60%", "--failure-injection-rate=50"], "110%"),
        ] {
            let error = parse(flags).unwrap_err();
            assert!(error.contains(told), "{flags:?}: {error}");
        }
    }
}
