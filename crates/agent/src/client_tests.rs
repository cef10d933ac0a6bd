use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::contract::{Order, Reason, Role};

/// How long an answer may take here.
const ANSWER: Duration = Duration::from_secs(3);

/// A server that gives each connection one unchanged answer; its URL, and the number of its connections.
async fn server(answer: impl AsRef<[u8]> + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            read_head(&mut stream).await;
            // The client may have gone.
            drop(stream.write_all(answer.as_ref()).await);
        }
    });
    (url, count)
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while !text.windows(4).any(|part| part == b"\r\n\r\n") {
        let mut part = [0; 1024];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => break,
            Ok(n) => text.extend_from_slice(&part[..n]),
        }
    }
    String::from_utf8(text).unwrap()
}

fn with_body(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn ok(state: &Value) -> String {
    with_body("200 OK", &state.to_string())
}

async fn asked(answer: impl AsRef<[u8]> + Send + 'static) -> Result<MemberState, String> {
    let (url, _) = server(answer).await;
    state(&url).await
}

/// The state, or why there is none, without the URL.
async fn state(url: &str) -> Result<MemberState, String> {
    why(url, Client::default().state(url, ANSWER).await)
}

async fn ordered(url: &str) -> Result<MemberState, String> {
    why(url, Client::default().order(url, &fence(), ANSWER).await)
}

fn why(url: &str, answer: Result<MemberState, ClientError>) -> Result<MemberState, String> {
    answer.map_err(|error| error.to_string().replace(&format!("{url}: "), ""))
}

fn fence() -> Verb {
    Verb::Fence(Order { epoch: 1, number: Some(0), data: "u".into() })
}

#[tokio::test]
async fn a_state_is_read_and_its_texts_are_bounded() {
    let state = json!({"member": "db-0", "data": "u", "role": "Primary", "got": "a:1-9", "lag": -1.0,
        "problem": format!("a\nb{}", "x".repeat(10_000)), "later": {"deep": []}});
    let state = asked(ok(&state)).await.unwrap();
    assert_eq!((state.role, state.got.to_string(), state.lag), (Role::Primary, "a:1-9".to_owned(), None));
    let problem = state.problem.unwrap();
    assert!(problem.starts_with("a b") && problem.chars().count() == MAX_TEXT, "{problem}");
}

#[tokio::test]
async fn a_hostile_answer_is_an_error_of_that_request_alone() {
    let state = |more: Value| {
        let mut all = json!({"member": "db-0"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ok(&all)
    };
    let many: Vec<String> = (0..5000).map(|n| format!("{}", n * 2)).collect();
    let nested = format!("{{\"member\": \"db-0\", \"x\": {}", "[".repeat(100_000));
    let table: Vec<(String, &str)> = vec![
        (with_body("200 OK", "nothing"), "its answer is not a state"),
        (with_body("200 OK", &nested), "its answer is not a state"),
        (state(json!({"got": 7})), "its answer is not a state"),
        (state(json!({"role": "King"})), "its answer is not a state"),
        (state(json!({"epoch": -1})), "its answer is not a state"),
        (state(json!({"epoch": u64::MAX})), "its epoch or its number is too high"),
        (
            state(json!({"start": "a b"})),
            "its start or the identity of its data does not have 1 to 128 characters of ASCII",
        ),
        (
            state(json!({"data": ""})),
            "its start or the identity of its data does not have 1 to 128 characters of ASCII",
        ),
        (
            state(json!({"data": "x".repeat(129)})),
            "its start or the identity of its data does not have 1 to 128 characters of ASCII",
        ),
        (
            state(json!({"continues": vec!["a"; 9]})),
            "it continues more than 8 starts, or one that does not have 1 to 128 characters of ASCII",
        ),
        (
            state(json!({"continues": ["a", ""]})),
            "it continues more than 8 starts, or one that does not have 1 to 128 characters of ASCII",
        ),
        (state(json!({"has": format!("a:{}", many.join(":"))})), "a position in its state has more than 16384 bytes"),
        (with_body("200 OK", &"x".repeat(LIMIT + 1)), "its answer is too long"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab".into(), "its answer broke off"),
        ("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n\r\n".into(), "it answers with the status 302"),
        (with_body("500 No", "<html>"), "it answers with the status 500"),
        (format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(4 * HEAD)), "the connection broke off"),
        ("SSH-2.0-x\r\n".into(), "the connection broke off"),
        (with_body("503 Later", r#"{"reason": "Busy", "message": "a\tcopy"}"#), "Busy: a copy"),
    ];
    for (answer, expected) in table {
        let begin: String = answer.chars().take(80).collect();
        assert_eq!(asked(answer).await, Err(expected.to_owned()), "{begin}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_eq!(self::state(&format!("http://{nobody}")).await, Err("connection refused".to_owned()));
}

/// A body that does not end is read up to the limit, and no further; one that trickles is given up.
#[tokio::test]
async fn an_endless_answer_and_a_slow_one_are_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for endless in [true, false] {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                read_head(&mut stream).await;
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await);
                let part = if endless { vec![b' '; 64 << 10] } else { vec![b' '] };
                while stream.write_all(&part).await.is_ok() {
                    if !endless {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            });
        }
    });
    assert_eq!(state(&url).await, Err("its answer is too long".to_owned()));
    let began = Instant::now();
    assert_eq!(state(&url).await, Err("no answer within 3 seconds".to_owned()));
    assert!(began.elapsed() < ANSWER + Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_order_is_obeyed_or_refused_and_a_redirect_is_not_followed() {
    let (url, _) = server(ok(&json!({"member": "db-0", "role": "Fenced", "epoch": 1}))).await;
    assert_eq!(ordered(&url).await.unwrap().role, Role::Fenced);
    let refusal = json!({"reason": "StaleEpoch", "message": "2 was obeyed"}).to_string();
    let (url, _) = server(with_body("409 Conflict", &refusal)).await;
    let expected = ClientError::Refused(Refusal::new(Reason::StaleEpoch, "2 was obeyed"));
    assert_eq!(Client::default().order(&url, &fence(), ANSWER).await, Err(expected));
    let (other, reached) = server(ok(&json!({"member": "db-0"}))).await;
    let (url, _) = server(format!("HTTP/1.1 307 Go\r\nlocation: {other}/v1/fence\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!(ordered(&url).await, Err("it answers with the status 307".into()));
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}
