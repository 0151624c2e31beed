//! What a record must say.

use super::Json;
use super::compile::text_of;

/// What the record of a request says. Absent values are `Json::Null`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// An object with the fields that a case may name.
    pub(crate) fields: Json,
    /// When the request was sent, ns.
    pub(crate) submitted_ns: u64,
    /// `first_byte`, `first_token`, `first_output`, `last_token`, `done`, ns.
    pub(crate) times_ns: [Option<u64>; 5],
}

const TIMES: [&str; 5] = [
    "first_byte",
    "first_token",
    "first_output",
    "last_token",
    "done",
];

impl Record {
    /// What holds for every record, whatever the case.
    pub(super) fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let failed = self.fields["error"] != Json::Null;
        if (self.fields["outcome"] == Json::text("error")) != failed {
            found.push(format!(
                "the outcome does not go with the error: {}",
                self.fields
            ));
        }
        if failed && self.fields["error"]["message"].str().is_empty() {
            found.push("the error has no message".to_owned());
        }
        // First output may come before the last token only; it is compared with both ends.
        let [first_byte, first_token, first_output, last_token, done] = self.times_ns;
        for order in [
            [
                Some(self.submitted_ns),
                first_byte,
                first_token,
                last_token,
                done,
            ],
            [first_token, first_output, first_output, last_token, done],
        ] {
            let known: Vec<u64> = order.into_iter().flatten().collect();
            if !known.is_sorted() {
                found.push(format!("times out of order: {self:?}"));
            }
        }
        found
    }

    fn time_ns(&self, name: &str) -> Option<u64> {
        let index = TIMES.iter().position(|known| *known == name);
        self.times_ns[index.unwrap_or_else(|| panic!("no time {name}"))]
    }
}

fn matches(field: &str, want: &Json, got: &Json) -> bool {
    if let Some(any) = want.get("one_of") {
        return any.list().iter().any(|one| matches(field, one, got));
    }
    match (field, want) {
        // No text may be "" or null.
        ("text", _) => {
            let text = |value: &Json| {
                if *value == Json::Null {
                    String::new()
                } else {
                    text_of(value)
                }
            };
            text(want) == text(got)
        }
        ("error", Json::Object(members)) => members
            .iter()
            .all(|(key, want)| got.get(key).is_some_and(|got| matches(key, want, got))),
        _ => want == got,
    }
}

pub(super) fn compare(expect: &Json, record: &Record) -> Vec<String> {
    let complaint = |(field, want): &(String, Json)| {
        let got = record
            .fields
            .get(field)
            .unwrap_or_else(|| panic!("no field {field}"));
        (!matches(field, want, got)).then(|| format!("{field} expected {want} got {got}"))
    };
    expect.members().iter().filter_map(complaint).collect()
}

pub(super) fn compare_spans(spans: &Json, record: &Record) -> Vec<String> {
    let complaint = |(name, bounds): &(String, Json)| {
        let from_submitted = |to: &str| (Some(record.submitted_ns), record.time_ns(to));
        let (start, stop) = match name.as_str() {
            "last_minus_first" => (record.time_ns("first_token"), record.time_ns("last_token")),
            "done_minus_last" => (record.time_ns("last_token"), record.time_ns("done")),
            after => from_submitted(after.strip_suffix("_after").expect("a known span")),
        };
        let ms = stop
            .zip(start)
            .map(|(stop, start)| (stop - start) as f64 / 1e6);
        let within = |ms: f64| (bounds.list()[0].f64()..=bounds.list()[1].f64()).contains(&ms);
        (!ms.is_some_and(within)).then(|| format!("{name} expected {bounds} ms got {ms:?}"))
    };
    spans.members().iter().filter_map(complaint).collect()
}
