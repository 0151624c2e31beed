use std::collections::HashMap;

use crate::protocol::{Code, HOLES_MAX, Piece, TemplateFrame, Trouble, Value};

/// Bodies with numbered holes.
#[derive(Debug)]
pub(crate) struct Templates {
    by_number: HashMap<u64, Template>,
    bytes: usize,
    count_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Template {
    text: Vec<u8>,
    pieces: Vec<Part>,
    holes: usize,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    /// The text up to here.
    Until(usize),
    Hole(usize),
}

impl Template {
    /// About what it takes.
    fn bytes(&self) -> usize {
        self.text.len() + self.pieces.len() * size_of::<Part>()
    }
}

impl Templates {
    pub(crate) fn new(count_max: usize, bytes_max: usize) -> Self {
        Self {
            by_number: HashMap::new(),
            bytes: 0,
            count_max,
            bytes_max,
        }
    }

    /// Keeps a template, in place of the one of the same number.
    pub(crate) fn register(&mut self, frame: TemplateFrame<'_>) -> Result<(), Trouble> {
        let mut template = Template::default();
        for piece in frame.pieces() {
            if template.bytes() > self.bytes_max {
                break;
            }
            match piece {
                Piece::Bytes(bytes) => {
                    template.text.extend_from_slice(bytes);
                    template.pieces.push(Part::Until(template.text.len()));
                }
                Piece::Hole(hole) if hole < u64::from(HOLES_MAX) => {
                    let hole = usize::try_from(hole).unwrap_or(usize::MAX);
                    template.pieces.push(Part::Hole(hole));
                    template.holes = template.holes.max(hole + 1);
                }
                Piece::Hole(hole) => {
                    let text = format!("hole {hole} of a template: the last is {}", HOLES_MAX - 1);
                    return Err(Trouble::new(Code::Oversized, text));
                }
            }
        }
        let before = self
            .by_number
            .get(&frame.template)
            .map_or(0, Template::bytes);
        let bytes = self.bytes - before + template.bytes();
        let is_new = !self.by_number.contains_key(&frame.template);
        if is_new && self.by_number.len() >= self.count_max || bytes > self.bytes_max {
            let text = format!(
                "more than {} templates, or than {} bytes of them",
                self.count_max, self.bytes_max
            );
            return Err(Trouble::new(Code::Oversized, text));
        }
        self.bytes = bytes;
        self.by_number.insert(frame.template, template);
        Ok(())
    }

    /// Appends a template with its holes filled to `body`, which may get `bytes_max` long.
    pub(crate) fn fill(
        &self,
        number: u64,
        values: &[Value<'_>],
        body: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), Trouble> {
        let template = self.by_number.get(&number).ok_or_else(|| {
            Trouble::new(
                Code::Template,
                format!("no template {number} is registered"),
            )
        })?;
        if values.len() < template.holes {
            let text = format!(
                "template {number} has {} holes, and there are {} values",
                template.holes,
                values.len()
            );
            return Err(Trouble::new(Code::Template, text));
        }
        let start = body.len();
        let mut at = 0;
        for part in &template.pieces {
            match *part {
                Part::Until(end) => {
                    body.extend_from_slice(&template.text[at..end]);
                    at = end;
                }
                Part::Hole(hole) => write(&values[hole], body),
            }
            // After every piece: a hole may repeat, and a value be long.
            if body.len() > bytes_max {
                body.truncate(start);
                let text = "the bodies that templates make of one message are too long together";
                return Err(Trouble::new(Code::Oversized, text));
            }
        }
        Ok(())
    }
}

fn write(value: &Value<'_>, body: &mut Vec<u8>) {
    match *value {
        Value::Text(text) => escape(text, body),
        Value::Raw(bytes) => body.extend_from_slice(bytes),
        Value::Number(number) => body.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// Writes `text` as the inside of a JSON string (RFC 8259, 7).
fn escape(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => {
                let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                let escaped = [b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)];
                out.extend_from_slice(&escaped);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::{Inward, read_inward, template_message};

    fn register(
        templates: &mut Templates,
        number: u64,
        pieces: &[Piece<'_>],
    ) -> Result<(), Trouble> {
        let message = template_message(number, pieces);
        let Inward::Template(frame) = read_inward(&message).unwrap() else {
            panic!("a template");
        };
        templates.register(frame)
    }

    fn filled(templates: &Templates, values: &[Value<'_>]) -> Result<String, Trouble> {
        let mut body = b"before".to_vec();
        templates.fill(7, values, &mut body, 100)?;
        Ok(String::from_utf8(body).unwrap())
    }

    #[test]
    fn holes_are_filled_by_their_numbers() {
        let mut templates = Templates::new(2, 1_000);
        let pieces = [
            Piece::Bytes(b"{\"a\":\""),
            Piece::Hole(1),
            Piece::Bytes(b"\","),
            Piece::Hole(0),
            Piece::Hole(0),
            Piece::Bytes(b"}"),
        ];
        register(&mut templates, 7, &pieces).unwrap();
        let values = [Value::Number(-3), Value::Text("say \"hi\"\n\u{1}")];
        let body = filled(&templates, &values).unwrap();
        assert_eq!(body, "before{\"a\":\"say \\\"hi\\\"\\n\\u0001\",-3-3}");
        let values = [Value::Raw(b"\"raw\""), Value::Text("")];
        let body = filled(&templates, &values).unwrap();
        assert_eq!(body, "before{\"a\":\"\",\"raw\"\"raw\"}");
        let short = filled(&templates, &values[..1]).unwrap_err();
        assert_eq!(short.code, Code::Template);
        let long = "x".repeat(100);
        let long = filled(&templates, &[Value::Text(&long), Value::Text("")]).unwrap_err();
        assert_eq!(long.code, Code::Oversized);
        let mut body = Vec::new();
        let none = templates.fill(8, &[], &mut body, 100).unwrap_err();
        assert_eq!((none.code, body.len()), (Code::Template, 0));
    }

    #[test]
    fn templates_have_bounds_and_can_be_replaced() {
        let mut templates = Templates::new(2, 200);
        let long = [b'x'; 150];
        register(&mut templates, 1, &[Piece::Bytes(&long)]).unwrap();
        let code = |result: Result<(), Trouble>| result.map_err(|trouble| trouble.code);
        let second = register(&mut templates, 2, &[Piece::Bytes(&long)]);
        assert_eq!(code(second), Err(Code::Oversized));
        // In place of the first there is room.
        register(&mut templates, 1, &[Piece::Bytes(&long)]).unwrap();
        register(&mut templates, 7, &[Piece::Bytes(b"y")]).unwrap();
        let third = register(&mut templates, 3, &[]);
        assert_eq!(code(third), Err(Code::Oversized));
        let hole = register(&mut templates, 7, &[Piece::Hole(u64::MAX)]);
        assert_eq!(code(hole), Err(Code::Oversized));
        assert_eq!(filled(&templates, &[]).unwrap(), "beforey");
    }

    proptest! {
        #[test]
        fn text_is_escaped_as_json(text in "\\PC*|[\\x00-\\x7f]*") {
            let mut body = b"\"".to_vec();
            escape(&text, &mut body);
            body.push(b'"');
            let read: String = serde_json::from_slice(&body).unwrap();
            prop_assert_eq!(read, text);
        }
    }
}
