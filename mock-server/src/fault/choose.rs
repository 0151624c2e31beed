//! Which request gets which fault.
use super::catalogue::{Kind, Scope};
use super::grammar::{Fault, FaultError, FaultRule, RATE_ALL, When, Wish};

/// The faults that a server injects of its own accord.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    rules: Vec<FaultRule>,
    seed: u64,
}

impl Faults {
    /// Injects by `rules`, drawing from `seed` where a rule has a rate.
    ///
    /// # Errors
    /// When the rates of the rules for requests, or of those for connections, exceed 100 %
    /// together.
    pub fn new(rules: Vec<FaultRule>, seed: u64) -> Result<Self, FaultError> {
        for connections in [false, true] {
            let rates = rules.iter().filter_map(|rule| match rule.when {
                When::Rate(rate) if rule.is_for_connections() == connections => Some(rate),
                _ => None,
            });
            let sum: u64 = rates.sum();
            if sum > RATE_ALL {
                return Err(FaultError::Rates(sum.div_ceil(RATE_ALL / 100)));
            }
        }
        Ok(Self { rules, seed })
    }
}

impl FaultRule {
    fn is_for_connections(&self) -> bool {
        self.fault.kind.scope() == Scope::Connections
    }
}

/// Chooses for one shard.
///
/// A request's choice depends on the seed, the shard, its own number (from 1, of the generating
/// requests of the shard) and on nothing else. The first rule without a rate that takes a request
/// has it; of the others, those with a rate share one draw, so that each gets its share of them.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    faults: Faults,
    shard: u64,
    requests: u64,
    connections: u64,
}

impl Chooser {
    /// The chooser of shard `shard`, counted from 0.
    pub(crate) fn new(faults: &Faults, shard: u64) -> Self {
        Self {
            faults: faults.clone(),
            shard,
            requests: 0,
            connections: 0,
        }
    }

    /// Chooses from `faults` from now on. Numbers go on where they are.
    pub(crate) fn take_up(&mut self, faults: &Faults) {
        self.faults.clone_from(faults);
    }

    /// The fault of the next request, a stream or not, which has this wish.
    ///
    /// # Errors
    /// When the request wishes for a fault that its answer can't have.
    pub(crate) fn request(
        &mut self,
        wish: Wish,
        stream: bool,
    ) -> Result<Option<Fault>, FaultError> {
        self.requests += 1;
        Ok(match wish {
            Wish::Sound => None,
            Wish::Faulty(fault) if fault.kind.applies(stream) => Some(fault),
            Wish::Faulty(fault) => {
                let what = if stream { "a whole answer" } else { "a stream" };
                let message = format!("only {what} can have the fault {}", fault.kind);
                return Err(FaultError::Scope(message));
            }
            Wish::Open if self.faults.rules.is_empty() => None,
            Wish::Open => self.choose(self.requests, |kind| kind.applies(stream)),
        })
    }

    /// The fault of the next connection.
    pub(crate) fn connection(&mut self) -> Option<Fault> {
        if self.faults.rules.is_empty() {
            return None;
        }
        self.connections += 1;
        self.choose(self.connections, |kind| kind.scope() == Scope::Connections)
    }

    fn choose(&self, number: u64, applies: impl Fn(Kind) -> bool) -> Option<Fault> {
        let rules = &self.faults.rules;
        let exact = rules
            .iter()
            .find(|rule| rule.when.takes(number) && applies(rule.fault.kind));
        if let Some(rule) = exact {
            return Some(rule.fault);
        }
        let mut draw = self.draw(number);
        for rule in rules {
            let When::Rate(rate) = rule.when else {
                continue;
            };
            if !applies(rule.fault.kind) {
                continue;
            }
            match draw.checked_sub(rate) {
                Some(rest) => draw = rest,
                None => return Some(rule.fault),
            }
        }
        None
    }

    /// Uniform on `0..RATE_ALL`: output `number` of SplitMix64 (Steele, Lea, Flood 2014), spelled
    /// out so that no release of a library changes which requests fail.
    fn draw(&self, number: u64) -> u64 {
        let seed = mix(self.faults.seed).wrapping_add(mix(self.shard.wrapping_add(1)));
        let word = mix(seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let scaled = (u128::from(word) * u128::from(RATE_ALL)) >> 64;
        u64::try_from(scaled).unwrap_or(RATE_ALL)
    }
}

impl When {
    /// Whether it takes request `number`, whatever is drawn.
    fn takes(self, number: u64) -> bool {
        match self {
            Self::Always => true,
            Self::Rate(_) => false,
            Self::Number(one) => number == one,
            Self::Every(every) => number.is_multiple_of(every),
            Self::First(first) => number <= first,
        }
    }
}

/// The finaliser of SplitMix64.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chooser(rules: &[&str], seed: u64, shard: u64) -> Chooser {
        let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Chooser::new(&Faults::new(rules, seed).unwrap(), shard)
    }

    /// The names of the faults of the first `count` requests; `-` where there is none.
    fn names(chooser: &mut Chooser, count: usize, stream: bool) -> Vec<String> {
        let mut next = || chooser.request(Wish::Open, stream).unwrap();
        (0..count)
            .map(|_| next().map_or_else(|| "-".to_owned(), |fault| fault.kind.to_string()))
            .collect()
    }

    #[test]
    fn exact_rules_take_the_requests_that_they_name() {
        let mut chooser = chooser(&["nul@3", "html@every=4", "status-500@first=2"], 0, 0);
        let names = names(&mut chooser, 9, true);
        let five = "status-500";
        assert_eq!(
            names,
            [five, five, "nul", "html", "-", "-", "-", "html", "-"]
        );
    }

    #[test]
    fn a_rule_that_does_not_apply_leaves_the_request_to_the_next() {
        let rules = ["no-done", "stream-reply@2", "nul@4"];
        assert_eq!(names(&mut chooser(&rules, 0, 0), 4, true), ["no-done"; 4]);
        assert_eq!(
            names(&mut chooser(&rules, 0, 0), 4, false),
            ["-", "stream-reply", "-", "nul"]
        );
    }

    #[test]
    fn wishes_come_before_rules() {
        let mut chooser = chooser(&["nul"], 0, 0);
        let html = Wish::parse(Some(b"html"), None).unwrap();
        let kind = |fault: Option<Fault>| fault.map(|fault| fault.kind);
        assert_eq!(chooser.request(html, true).map(kind), Ok(Some(Kind::Html)));
        assert_eq!(chooser.request(Wish::Sound, true).map(kind), Ok(None));
        assert_eq!(
            chooser.request(Wish::Open, true).map(kind),
            Ok(Some(Kind::Nul))
        );
        let done = Wish::parse(Some(b"no-done"), None).unwrap();
        let refused = chooser.request(done, false).unwrap_err().to_string();
        assert_eq!(refused, "only a stream can have the fault no-done");
    }

    #[test]
    fn rates_share_one_draw() {
        const N: usize = 20_000;
        let mut chooser = chooser(&["nul@10%", "html@0.5%", "no-done@25%", "drip@7"], 42, 0);
        let names = names(&mut chooser, N, true);
        for (name, rate) in [
            ("nul", 0.1),
            ("html", 0.005),
            ("no-done", 0.25),
            ("-", 0.645),
        ] {
            let count = names.iter().filter(|known| *known == name).count() as f64;
            let (mean, spread) = (N as f64 * rate, (N as f64 * rate * (1.0 - rate)).sqrt());
            assert!(
                (count - mean).abs() < 4.0 * spread,
                "{name}: {count} of {mean}"
            );
        }
        assert_eq!(names[6], "drip");
        // The share of what can't be had goes to nobody.
        let wholes = self::names(
            &mut self::chooser(&["no-done@60%", "nul@40%"], 42, 0),
            N,
            false,
        );
        let nuls = wholes.iter().filter(|name| *name == "nul").count() as f64;
        assert!((nuls / N as f64 - 0.4).abs() < 0.01, "{nuls}");
    }

    #[test]
    fn the_seed_the_shard_and_the_number_decide() {
        let first = |seed, shard| names(&mut chooser(&["nul@50%"], seed, shard), 64, true);
        assert_eq!(first(1, 0), first(1, 0));
        assert_ne!(first(1, 0), first(2, 0));
        assert_ne!(first(1, 0), first(1, 1));
        // Bit-exact across releases and machines.
        let taken: Vec<usize> = (0..64)
            .filter(|i| first(1, 0)[*i] == "nul")
            .take(6)
            .collect();
        assert_eq!(taken, [2, 3, 4, 6, 7, 11]);
        let all = names(&mut chooser(&["nul@100%"], 1, 0), 1_000, true);
        assert!(all.iter().all(|name| name == "nul"));
    }

    #[test]
    fn connections_have_rules_and_numbers_of_their_own() {
        let mut chooser = chooser(&["reset-on-accept@2", "nul@1"], 0, 0);
        let resets: Vec<bool> = (0..3).map(|_| chooser.connection().is_some()).collect();
        assert_eq!(resets, [false, true, false]);
        assert_eq!(names(&mut chooser, 2, true), ["nul", "-"]);
    }

    #[test]
    fn too_much_is_refused() {
        let faults = |rules: &[&str]| {
            Faults::new(rules.iter().map(|rule| rule.parse().unwrap()).collect(), 0)
        };
        let error = faults(&["nul@60%", "html@50%"]).unwrap_err().to_string();
        assert!(error.contains("110%"), "{error}");
        assert!(faults(&["nul@60%", "html@40%", "reset-on-accept@50%"]).is_ok());
    }

    proptest! {
        #[test]
        fn draws_are_shares(seed in any::<u64>(), number in any::<u64>()) {
            let chooser = chooser(&[], seed, 0);
            prop_assert!(chooser.draw(number) < RATE_ALL);
        }
    }
}
