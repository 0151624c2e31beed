//! KV memory: blocks that running requests hold, and those kept for prompts that begin alike.

use std::collections::HashMap;

/// How much KV memory there is, and whether beginnings of prompts are found again in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCache {
    /// Blocks in all.
    pub blocks: u32,
    /// Tokens in a block, at least 1.
    pub block_tokens: u32,
    /// Whether a prompt's blocks are kept after its request, until others need the room.
    pub prefix_caching: bool,
}

impl KvCache {
    /// Blocks for a request: each of its sequences holds its own output, and all share the prompt.
    fn needed(&self, prompt_tokens: u32, output_tokens: u32, sequences: u32) -> u64 {
        let tokens = self.block_tokens.max(1);
        let shared = u64::from(prompt_tokens / tokens);
        let own = (u64::from(prompt_tokens % tokens) + u64::from(output_tokens))
            .div_ceil(u64::from(tokens));
        shared + own * u64::from(sequences)
    }
}

/// A block whose content is known by the hash of all tokens up to its end.
#[derive(Debug)]
struct Shared {
    hash: u64,
    /// Requests that hold it. 0: it is kept, in the list from `oldest` to `newest`.
    holders: u32,
    older: u32,
    newer: u32,
}

const NONE: u32 = u32::MAX;

/// What one request holds.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// Places in `Blocks::shared`, in the order of the prompt.
    shared: Vec<u32>,
    own: u32,
    /// Tokens at the prompt's beginning that were there already.
    pub(crate) cached_tokens: u32,
}

/// What is asked of the KV memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room<'a> {
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
    pub(crate) sequences: u32,
    /// For each full block of the prompt, a hash of the tokens up to its end.
    pub(crate) prefixes: &'a [u64],
}

/// The KV memory of one replica. All of what a request may need is set aside when it starts, so that
/// none is ever driven out again.
#[derive(Debug)]
pub(crate) struct Blocks {
    config: KvCache,
    known: HashMap<u64, u32>,
    shared: Vec<Shared>,
    /// Places in `shared` that are not in use.
    spare: Vec<u32>,
    /// Empty lists, to be used again.
    lists: Vec<Vec<u32>>,
    /// Kept blocks: the one to give up first, and last.
    oldest: u32,
    newest: u32,
    kept: u32,
    /// Blocks that running requests hold; a shared one counts once.
    /// INVARIANT: `held + kept <= config.blocks`.
    held: u32,
    /// Prompt tokens looked up, and found, of the requests that started.
    pub(crate) queried_tokens: u64,
    pub(crate) hit_tokens: u64,
}

impl Blocks {
    pub(crate) fn new(config: KvCache) -> Self {
        Self {
            config,
            known: HashMap::new(),
            shared: Vec::new(),
            spare: Vec::new(),
            lists: Vec::new(),
            oldest: NONE,
            newest: NONE,
            kept: 0,
            held: 0,
            queried_tokens: 0,
            hit_tokens: 0,
        }
    }

    /// Whether it would fit if nothing else ran.
    pub(crate) fn can_ever_fit(&self, room: Room<'_>) -> bool {
        self.needed(room) <= u64::from(self.config.blocks)
    }

    /// The part of all blocks that running requests hold, millionths.
    pub(crate) fn usage_ppm(&self) -> u64 {
        u64::from(self.held) * 1_000_000 / u64::from(self.config.blocks.max(1))
    }

    /// Sets blocks aside, and gives up kept ones as needed; `None` when there is no room now.
    pub(crate) fn take(&mut self, room: Room<'_>) -> Option<Hold> {
        let prefixes = self.shareable(room);
        let found = self.find(&prefixes[..prefixes.len().min(self.findable(room))]);
        let revived = found.iter().filter(|place| self.at(**place).holders == 0);
        let revived = u32::try_from(revived.count()).unwrap_or(u32::MAX);
        let new = self.needed(room) - found.len() as u64;
        // Saturating: should two hashes be equal, one block counts as revived twice.
        let free = (self.config.blocks - self.held).saturating_sub(revived);
        let new = match u32::try_from(new) {
            Ok(new) if new <= free => new,
            _ => {
                self.recycle(found);
                return None;
            }
        };
        for place in &found {
            self.hold(*place);
        }
        while self.config.blocks - self.held - self.kept < new {
            self.give_up_oldest();
        }
        self.held += new;
        let cached_tokens = self.tokens(found.len());
        self.queried_tokens += u64::from(room.prompt_tokens);
        self.hit_tokens += u64::from(cached_tokens);
        let mut hold = Hold {
            own: new,
            cached_tokens,
            shared: found,
        };
        self.publish(&mut hold, prefixes);
        Some(hold)
    }

    /// Takes back what a request held. Its prompt's blocks are kept, the later ones to be given up
    /// before the earlier ones, without which they are of no use.
    pub(crate) fn give_back(&mut self, mut hold: Hold) {
        self.held -= hold.own;
        while let Some(place) = hold.shared.pop() {
            let block = &mut self.shared[place as usize];
            block.holders -= 1;
            if block.holders == 0 {
                self.held -= 1;
                self.keep(place);
            }
        }
        self.recycle(hold.shared);
    }

    fn needed(&self, room: Room<'_>) -> u64 {
        self.config
            .needed(room.prompt_tokens, room.output_tokens, room.sequences)
    }

    /// The prefixes that may be found or published: full blocks, and none without prefix caching.
    fn shareable<'a>(&self, room: Room<'a>) -> &'a [u64] {
        let full = (room.prompt_tokens / self.config.block_tokens.max(1)) as usize;
        let shareable = if self.config.prefix_caching { full } else { 0 };
        &room.prefixes[..room.prefixes.len().min(shareable)]
    }

    /// How many blocks may be found: the prompt's last token is computed always, since the first
    /// token of the answer comes from it.
    fn findable(&self, room: Room<'_>) -> usize {
        (room.prompt_tokens.saturating_sub(1) / self.config.block_tokens.max(1)) as usize
    }

    fn tokens(&self, blocks: usize) -> u32 {
        u32::try_from(blocks).map_or(u32::MAX, |blocks| {
            blocks.saturating_mul(self.config.block_tokens)
        })
    }

    /// The places of the blocks that are there, up to the first that is not.
    fn find(&mut self, prefixes: &[u64]) -> Vec<u32> {
        let mut found = self.lists.pop().unwrap_or_default();
        let known = prefixes.iter().map_while(|hash| self.known.get(hash));
        found.extend(known);
        found
    }

    /// Makes the blocks that were not found known from now on: those who come after share them.
    fn publish(&mut self, hold: &mut Hold, prefixes: &[u64]) {
        for hash in &prefixes[hold.shared.len()..] {
            // A later block may still be there though an earlier one is gone. It stays as it is,
            // and this request computes its own.
            if self.known.contains_key(hash) {
                continue;
            }
            let block = Shared {
                hash: *hash,
                holders: 1,
                older: NONE,
                newer: NONE,
            };
            let place = match self.spare.pop() {
                Some(place) => {
                    self.shared[place as usize] = block;
                    place
                }
                None => {
                    self.shared.push(block);
                    u32::try_from(self.shared.len() - 1).expect("no more than `config.blocks`")
                }
            };
            self.known.insert(*hash, place);
            hold.shared.push(place);
            hold.own -= 1;
        }
    }

    fn at(&self, place: u32) -> &Shared {
        &self.shared[place as usize]
    }

    /// One more request holds a block.
    fn hold(&mut self, place: u32) {
        let block = &mut self.shared[place as usize];
        block.holders += 1;
        if block.holders == 1 {
            self.held += 1;
            self.unlink(place);
        }
    }

    fn keep(&mut self, place: u32) {
        let block = &mut self.shared[place as usize];
        (block.older, block.newer) = (self.newest, NONE);
        match self.newest {
            NONE => self.oldest = place,
            newest => self.shared[newest as usize].newer = place,
        }
        self.newest = place;
        self.kept += 1;
    }

    fn unlink(&mut self, place: u32) {
        let Shared { older, newer, .. } = self.shared[place as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.shared[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.shared[newer as usize].older = older,
        }
        self.kept -= 1;
    }

    fn give_up_oldest(&mut self) {
        let place = self.oldest;
        self.unlink(place);
        self.known.remove(&self.shared[place as usize].hash);
        self.spare.push(place);
    }

    fn recycle(&mut self, mut list: Vec<u32>) {
        list.clear();
        self.lists.push(list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn room(prompt_tokens: u32, output_tokens: u32, prefixes: &[u64]) -> Room<'_> {
        Room {
            prompt_tokens,
            output_tokens,
            sequences: 1,
            prefixes,
        }
    }

    fn blocks(blocks: u32) -> Blocks {
        Blocks::new(KvCache {
            blocks,
            block_tokens: 4,
            prefix_caching: true,
        })
    }

    /// The tokens up to the end of each full block, as a number.
    fn hashes(tokens: &[u32]) -> Vec<u64> {
        let ends = (4..=tokens.len()).step_by(4);
        ends.map(|end| {
            let tokens = tokens[..end].iter();
            tokens.fold(1, |hash: u64, token| {
                hash.wrapping_mul(1_000_003)
                    .wrapping_add(u64::from(*token) + 1)
            })
        })
        .collect()
    }

    #[test]
    fn a_prompt_seen_before_is_found_but_for_its_last_token() {
        let mut kv = blocks(100);
        let tokens: Vec<u32> = (0..16).collect();
        let all = hashes(&tokens);
        let first = kv.take(room(16, 4, &all)).unwrap();
        assert_eq!((first.cached_tokens, kv.held, kv.kept), (0, 5, 0));
        // While it runs its blocks are shared: of four, the last is computed again.
        let second = kv.take(room(16, 4, &all)).unwrap();
        assert_eq!((second.cached_tokens, kv.held), (12, 7));
        // A longer prompt shares all four.
        let longer = hashes(&(0..23).collect::<Vec<_>>());
        let third = kv.take(room(23, 4, &longer)).unwrap();
        assert_eq!((third.cached_tokens, kv.held), (16, 10));
        for hold in [second, first, third] {
            kv.give_back(hold);
        }
        assert_eq!((kv.held, kv.kept), (0, 5));
        assert_eq!((kv.queried_tokens, kv.hit_tokens), (55, 28));
        assert_eq!(kv.usage_ppm(), 0);
    }

    #[test]
    fn without_prefix_caching_nothing_is_found_or_kept() {
        let mut kv = Blocks::new(KvCache {
            prefix_caching: false,
            ..blocks(10).config
        });
        let all = hashes(&(0..16).collect::<Vec<_>>());
        for _ in 0..3 {
            let hold = kv.take(room(16, 24, &all)).unwrap();
            assert_eq!(
                (hold.cached_tokens, kv.held, kv.usage_ppm()),
                (0, 10, 1_000_000)
            );
            assert!(kv.take(room(1, 0, &[])).is_none());
            kv.give_back(hold);
            assert_eq!((kv.held, kv.kept), (0, 0));
        }
    }

    #[test]
    fn the_end_of_the_oldest_prompt_is_given_up_first() {
        let mut kv = blocks(6);
        let old = hashes(&(0..12).collect::<Vec<_>>());
        let new = hashes(&(100..112).collect::<Vec<_>>());
        for all in [&old, &new] {
            let hold = kv.take(room(12, 0, all)).unwrap();
            kv.give_back(hold);
        }
        assert_eq!(kv.kept, 6);
        // Two blocks are needed: the last two of the old prompt go.
        let hold = kv.take(room(8, 0, &[1, 2])).unwrap();
        kv.give_back(hold);
        let hold = kv.take(room(12, 0, &old)).unwrap();
        assert_eq!(hold.cached_tokens, 4);
        kv.give_back(hold);
    }

    #[test]
    fn choices_share_the_prompt_and_nothing_else() {
        let kv = blocks(10).config;
        // 10 tokens: two full blocks; each of three choices has the rest and its own output.
        assert_eq!(kv.needed(10, 5, 3), 2 + 3 * 2);
        // The most that can be asked for is a number.
        assert!(kv.needed(u32::MAX, u32::MAX, u32::MAX) > u64::from(u32::MAX));
    }

    /// The same, as a list of hashes with holders, oldest first.
    #[derive(Default)]
    struct Naive {
        known: Vec<(u64, u32)>,
        own: u32,
    }

    struct NaiveHold {
        hashes: Vec<u64>,
        own: u32,
    }

    impl Naive {
        fn held(&self) -> u32 {
            let shared = self
                .known
                .iter()
                .filter(|(_, holders)| *holders > 0)
                .count();
            self.own + u32::try_from(shared).unwrap()
        }

        fn kept(&self) -> u32 {
            u32::try_from(self.known.len()).unwrap() + self.own - self.held()
        }

        fn holders(&mut self, hash: u64) -> Option<&mut u32> {
            let block = self.known.iter_mut().find(|(known, _)| *known == hash);
            block.map(|(_, holders)| holders)
        }

        fn take(&mut self, capacity: u32, prompt: &[u32], output: u32) -> Option<NaiveHold> {
            let all = hashes(prompt);
            let len = u32::try_from(prompt.len()).unwrap();
            let findable = (len.max(1) - 1) / 4;
            let found = all.iter().take(findable as usize);
            let found = found.take_while(|hash| self.known.iter().any(|(known, _)| known == *hash));
            let found: Vec<u64> = found.copied().collect();
            let total = (len + output).div_ceil(4);
            let new = total - u32::try_from(found.len()).unwrap();
            let mut revived = 0;
            for hash in &found {
                revived += u32::from(*self.holders(*hash).unwrap() == 0);
            }
            if self.held() + revived + new > capacity {
                return None;
            }
            for hash in &found {
                *self.holders(*hash).unwrap() += 1;
            }
            while self.held() + self.kept() + new > capacity {
                let oldest = self.known.iter().position(|(_, holders)| *holders == 0);
                self.known.remove(oldest.unwrap());
            }
            let mut hold = NaiveHold {
                hashes: found,
                own: new,
            };
            for hash in &all[hold.hashes.len()..] {
                if self.holders(*hash).is_none() {
                    self.known.push((*hash, 1));
                    hold.hashes.push(*hash);
                    hold.own -= 1;
                }
            }
            self.own += hold.own;
            Some(hold)
        }

        fn give_back(&mut self, hold: NaiveHold) {
            self.own -= hold.own;
            for hash in hold.hashes.into_iter().rev() {
                let at = self
                    .known
                    .iter()
                    .position(|(known, _)| *known == hash)
                    .unwrap();
                self.known[at].1 -= 1;
                if self.known[at].1 == 0 {
                    // The newest of those that nobody holds.
                    let block = self.known.remove(at);
                    self.known.push(block);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_list_of_hashes(
            capacity in 1_u32..24,
            // Prompts over two tokens share beginnings often.
            ops in proptest::collection::vec(
                (proptest::collection::vec(0_u32..2, 0..30), 0_u32..20, any::<u16>(), any::<bool>()),
                0..120,
            ),
        ) {
            let mut kv = blocks(capacity);
            let mut naive = Naive::default();
            let mut holds: Vec<(Hold, NaiveHold)> = Vec::new();
            for (prompt, output, pick, leaves) in ops {
                if leaves && !holds.is_empty() {
                    let (hold, expected) = holds.swap_remove(usize::from(pick) % holds.len());
                    kv.give_back(hold);
                    naive.give_back(expected);
                } else {
                    // Halves of blocks equal: many equal prefixes.
                    let prompt: Vec<u32> = prompt.iter().flat_map(|token| [*token; 2]).collect();
                    let all = hashes(&prompt);
                    let len = u32::try_from(prompt.len()).unwrap();
                    let taken = kv.take(room(len, output, &all));
                    let expected = naive.take(capacity, &prompt, output);
                    prop_assert_eq!(taken.is_some(), expected.is_some());
                    if let (Some(taken), Some(expected)) = (taken, expected) {
                        prop_assert_eq!(taken.own, expected.own);
                        prop_assert_eq!(taken.shared.len(), expected.hashes.len());
                        prop_assert!(taken.cached_tokens < len.max(1));
                        holds.push((taken, expected));
                    }
                }
                prop_assert_eq!((kv.held, kv.kept), (naive.held(), naive.kept()));
                prop_assert!(kv.held + kv.kept <= capacity);
                let mut known: Vec<u64> = kv.known.keys().copied().collect();
                let mut expected: Vec<u64> = naive.known.iter().map(|(hash, _)| *hash).collect();
                known.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(known, expected);
            }
        }
    }
}
