//! Response heads that are taken apart, changed and put together again.

/// A response head in lines, each without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Responses before the one that counts.
    interim: Vec<u8>,
    status_line: Vec<u8>,
    fields: Vec<Vec<u8>>,
}

impl Head {
    /// Takes a head apart: lines up to the blank one at its end.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let blank = b"\r\n\r\n";
        let inner = bytes.strip_suffix(blank).unwrap_or(bytes);
        let last = inner.windows(blank.len()).rposition(|four| four == blank);
        let (interim, bytes) = bytes.split_at(last.map_or(0, |last| last + blank.len()));
        let mut lines = bytes
            .split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec())
            .take_while(|line| !line.is_empty());
        Self {
            interim: interim.to_vec(),
            status_line: lines.next().unwrap_or_default(),
            fields: lines.collect(),
        }
    }

    /// The same with another status line.
    pub(crate) fn status_line(mut self, line: impl Into<Vec<u8>>) -> Self {
        self.status_line = line.into();
        self
    }

    /// The same without the fields of this name.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|line| {
            let colon = line.iter().position(|byte| *byte == b':');
            let known = colon.map_or(&line[..], |colon| &line[..colon]);
            !known.trim_ascii().eq_ignore_ascii_case(name.as_bytes())
        });
        self
    }

    /// The same with one more line.
    pub(crate) fn with(mut self, line: impl Into<Vec<u8>>) -> Self {
        self.fields.push(line.into());
        self
    }

    /// The same with nothing about the framing of the body.
    pub(crate) fn unframed(self) -> Self {
        self.without("content-length").without("transfer-encoding")
    }

    /// The same with another type of body.
    pub(crate) fn of_type(self, content_type: &str) -> Self {
        self.without("content-type")
            .with(format!("content-type: {content_type}"))
    }

    /// The head again, up to and with the blank line.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.interim;
        bytes.extend_from_slice(&self.status_line);
        for line in self.fields {
            bytes.extend_from_slice(b"\r\n");
            bytes.extend_from_slice(&line);
        }
        bytes.extend_from_slice(b"\r\n\r\n");
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length : 5\r\ncontent-type: a\r\n\r\n";

    #[test]
    fn a_head_comes_back_as_it_was() {
        assert_eq!(Head::new(HEAD.as_bytes()).into_bytes(), HEAD.as_bytes());
        let interim = format!("HTTP/1.1 100 Continue\r\n\r\n{HEAD}");
        assert_eq!(
            Head::new(interim.as_bytes()).into_bytes(),
            interim.as_bytes()
        );
        let bare = HEAD.replace('\r', "");
        assert_eq!(Head::new(bare.as_bytes()).into_bytes(), HEAD.as_bytes());
    }

    #[test]
    fn lines_are_exchanged_by_name() {
        let head = Head::new(HEAD.as_bytes())
            .unframed()
            .of_type("text/html")
            .status_line("HTTP/1.1 502 Bad Gateway")
            .with("x-a: b");
        let expected =
            "HTTP/1.1 502 Bad Gateway\r\nServer: x\r\ncontent-type: text/html\r\nx-a: b\r\n\r\n";
        assert_eq!(String::from_utf8(head.into_bytes()).unwrap(), expected);
    }
}
