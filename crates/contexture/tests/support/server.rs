//! An HTTP server on this machine that follows a script, one reply for each
//! connection, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

#[derive(Clone)]
pub enum Reply {
    Json(u16, Value),
    Junk(&'static str),
    /// Reads the request and sends nothing until the client disconnects.
    Silent,
    /// A vector of this many dimensions for each text. Texts about boats have
    /// one direction, all others another.
    Vectors(usize),
}

/// Returns a response of OpenAI's API.
pub fn openai(text: &str) -> Reply {
    Reply::Json(
        200,
        json!({
            "choices": [{"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        }),
    )
}

/// Returns a response of Anthropic's API.
pub fn anthropic(text: &str) -> Reply {
    Reply::Json(
        200,
        json!({
            "type": "message", "role": "assistant", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": text}],
            "usage": {"input_tokens": 1000, "output_tokens": 50}
        }),
    )
}

/// The server; it ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, String)>>>,
    stopped: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server; beyond the script, the last reply is given again.
    pub fn start(script: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let stopped = Arc::new(AtomicBool::new(false));
        let (seen, ends) = (Arc::clone(&asked), Arc::clone(&stopped));
        let accepting = thread::spawn(move || {
            let mut script = script.into_iter().peekable();
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), Some(reply)) = (stream, script.peek().cloned()) else {
                    continue;
                };
                if script.len() > 1 {
                    script.next();
                }
                let seen = Arc::clone(&seen);
                thread::spawn(move || serve(stream, &reply, &seen));
            }
        });
        Self {
            address,
            asked,
            stopped,
            accepting: Some(accepting),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the bodies of the requests so far.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(_, body)| body.clone()).collect()
    }

    /// Returns the first lines and the headers of the requests so far.
    pub fn heads(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(head, _)| head.clone()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn serve(mut stream: TcpStream, reply: &Reply, seen: &Mutex<Vec<(String, String)>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut length, mut head) = (0, String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = String::new();
    reader
        .by_ref()
        .take(length)
        .read_to_string(&mut body)
        .ok()?;
    seen.lock().unwrap().push((head, body.clone()));
    let (status, body) = match reply {
        Reply::Json(status, value) => (*status, value.to_string()),
        Reply::Junk(text) => (200, (*text).to_owned()),
        Reply::Vectors(dimensions) => (200, vectors(&body, *dimensions).to_string()),
        Reply::Silent => {
            let _ = stream.read(&mut [0]);
            return None;
        }
    };
    write!(
        stream,
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .ok()
}

fn vectors(asked: &str, dimensions: usize) -> Value {
    let asked: Value = serde_json::from_str(asked).unwrap();
    let texts = asked["input"].as_array().unwrap().iter().enumerate();
    let rows = texts.map(|(i, text)| {
        let boat = f64::from(u8::from(text.as_str().unwrap().contains("oat")));
        let mut vector = vec![0.1; dimensions];
        (vector[0], vector[1]) = (boat, 1.0 - boat);
        json!({"index": i, "embedding": vector})
    });
    json!({"data": rows.collect::<Vec<_>>()})
}
