//! h2's server, polled by hand.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{RecvStream, SendStream};
use http::{Request, Response};

use crate::pipe::{End, Pipe, lock};

/// One request as the server has it.
pub(crate) struct Asked {
    pub(crate) request: Request<RecvStream>,
    pub(crate) body: Vec<u8>,
    pub(crate) is_whole: bool,
    pub(crate) reply: SendResponse<Bytes>,
}

pub(crate) struct Server {
    pub(crate) h2: server::Connection<End, Bytes>,
    pipe: Arc<Mutex<Pipe>>,
    /// Those that are open, oldest first.
    pub(crate) asked: Vec<Asked>,
    pub(crate) is_over: bool,
}

impl Server {
    pub(crate) fn new(builder: &server::Builder, preface: &[u8]) -> Self {
        let pipe = Arc::new(Mutex::new(Pipe::new(usize::MAX)));
        lock(&pipe).push(preface);
        lock(&pipe).allow(usize::MAX);
        let handshake = pin!(builder.handshake(End::new(&pipe)));
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(h2) = handshake.poll(&mut cx) else {
            panic!("the preface is not whole");
        };
        Self {
            h2: h2.unwrap(),
            pipe,
            asked: Vec::new(),
            is_over: false,
        }
    }

    /// Tells it what the client said; what it says to that.
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Vec<u8> {
        lock(&self.pipe).push(bytes);
        lock(&self.pipe).allow(usize::MAX);
        // Twice: reading bodies makes updates of windows.
        for _ in 0..2 {
            self.accept();
            for asked in &mut self.asked {
                asked.read();
            }
        }
        let mut said = Vec::new();
        lock(&self.pipe).take(&mut said);
        said
    }

    fn accept(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        while !self.is_over {
            match self.h2.poll_accept(&mut cx) {
                Poll::Ready(Some(Ok((request, reply)))) => self.asked.push(Asked {
                    request,
                    body: Vec::new(),
                    is_whole: false,
                    reply,
                }),
                Poll::Ready(_) => self.is_over = true,
                Poll::Pending => return,
            }
        }
    }
}

impl Asked {
    fn read(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        while !self.is_whole {
            match self.request.body_mut().poll_data(&mut cx) {
                Poll::Ready(Some(Ok(data))) => {
                    self.body.extend_from_slice(&data);
                    let window = self.request.body_mut().flow_control();
                    window.release_capacity(data.len()).unwrap();
                }
                Poll::Ready(None) => self.is_whole = true,
                Poll::Ready(Some(Err(_))) | Poll::Pending => return,
            }
        }
    }

    /// Begins an answer of this type.
    pub(crate) fn begin(&mut self, content: &str) -> SendStream<Bytes> {
        let response = Response::builder()
            .header("content-type", content)
            .body(())
            .unwrap();
        self.reply.send_response(response, false).unwrap()
    }

    /// The whole answer at once.
    pub(crate) fn answer(&mut self, content: &str, body: &'static str) {
        let mut stream = self.begin(content);
        stream
            .send_data(Bytes::from_static(body.as_bytes()), true)
            .unwrap();
    }
}
