/// Whose words the server uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// vLLM's.
    #[default]
    Vllm,
}
