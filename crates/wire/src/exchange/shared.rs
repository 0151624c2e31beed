use crate::carry::CarryPool;
use crate::http1::FamiliarHead;
use crate::openai::FamiliarBody;

/// What the exchanges of one thread share: memory for what reads cut, and the head and the whole body that
/// later ones are compared with. Answers of one endpoint resemble each other, whichever connection they
/// come on.
#[derive(Debug)]
pub struct Shared {
    /// Lends to the carries of the connections.
    pub pool: CarryPool,
    pub(super) head: FamiliarHead,
    pub(super) body: FamiliarBody,
}

impl Shared {
    /// `carry_pool_bytes_max`: see [`CarryPool::new`]. A head and a body of up to `familiar_bytes_max` bytes each
    /// are kept, in buffers allocated here; none with 0, so that all are parsed.
    #[must_use]
    pub fn new(carry_pool_bytes_max: usize, familiar_bytes_max: usize) -> Self {
        Self {
            pool: CarryPool::new(carry_pool_bytes_max),
            head: FamiliarHead::new(familiar_bytes_max),
            body: FamiliarBody::new(familiar_bytes_max),
        }
    }
}
