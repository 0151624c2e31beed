use ridgeline_engine::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! bounds {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $least:literal to $most:literal),* $(,)?) => {
        /// Bounds on memory and messages that a file may change; see [`Limits`].
        #[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        pub(crate) struct Bounds {
            $($(#[$doc])*
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = $least, max = $most))]
            pub(crate) $name: Option<$kind>),*
        }

        impl Bounds {
            /// `limits` with what is set here in place.
            pub(crate) fn over(&self, mut limits: Limits) -> Result<Limits, String> {
                $(if let Some(value) = self.$name {
                    if !($least..=$most).contains(&(value as u64)) {
                        let key = stringify!($name).replace('_', "-");
                        return Err(format!(
                            "limits: {key} is {value}; it must lie between {} and {}", $least, $most
                        ));
                    }
                    limits.$name = value;
                })*
                Ok(limits)
            }

            /// All of them, as `limits` has them.
            pub(crate) fn of(limits: &Limits) -> Self {
                Self { $($name: Some(limits.$name)),* }
            }
        }
    };
}

bounds!(
    /// Requests in flight over all shards, where the load names no number of its own.
    slots: u32 = 1u64 to 1_048_576u64,
    /// Connections being set up at one time, per shard.
    connecting_max: u32 = 1u64 to 65_536u64,
    /// A response head, bytes.
    head_bytes_max: usize = 1_024u64 to 16_777_216u64,
    /// One event of a stream, bytes.
    event_bytes_max: usize = 1_024u64 to 1_073_741_824u64,
    /// The body of an answer that is not a stream, and the saved text of one that is, bytes.
    body_bytes_max: usize = 1_024u64 to 1_073_741_824u64,
    /// Lent by each shard to connections whose cut event is large, bytes.
    carry_pool_bytes_max: usize = 65_536u64 to 17_179_869_184u64,
    /// Arrivals of content events kept per request, with save-events; later ones only count.
    events_saved_max: usize = 1u64 to 1_073_741_824u64,
    /// Finished requests that may wait for the thread that writes records, per shard.
    records_queued_max: usize = 64u64 to 16_777_216u64,
    /// Tickets by which TLS connections are resumed, of all shards together.
    tls_tickets_max: usize = 0u64 to 1_048_576u64,
    /// Of HTTP/2: what a server may send on a stream ahead of our updates, bytes.
    http2_stream_window_bytes: u32 = 1_024u64 to 2_147_483_647u64,
    /// Of HTTP/2: what it may send on all streams of a connection, bytes.
    http2_connection_window_bytes: u32 = 65_535u64 to 2_147_483_647u64,
    /// Receive buffers of a ring: size of each, bytes.
    receive_buffer_bytes: usize = 1_024u64 to 1_048_576u64,
    /// Receive buffers of a ring: how many.
    receive_buffers: u16 = 2u64 to 32_768u64,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_replaces_the_default_within_its_range() {
        let bounds = Bounds {
            slots: Some(7),
            ..Bounds::default()
        };
        let limits = bounds.over(Limits::default()).unwrap();
        assert_eq!(
            limits,
            Limits {
                slots: 7,
                ..Limits::default()
            }
        );
        assert_eq!(Bounds::of(&limits).over(Limits::default()).unwrap(), limits);
        let bounds = Bounds {
            head_bytes_max: Some(1),
            ..Bounds::default()
        };
        let error = bounds.over(Limits::default()).unwrap_err();
        assert_eq!(
            error,
            "limits: head-bytes-max is 1; it must lie between 1024 and 16777216"
        );
    }
}
