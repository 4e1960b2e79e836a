//! A blocking MySQL client for the bare pipeline: a user without a password, statements that are prepared, and the two
//! kinds of value that its tables have. A driver would bring its own cost, and its own crates, into the figure.

use anyhow::Context as _;
use std::{
    io::{BufReader, Read as _, Write as _},
    net::TcpStream,
};

/// `LONG_PASSWORD`, `CONNECT_WITH_DB`, `PROTOCOL_41`, `TRANSACTIONS`, `SECURE_CONNECTION`, `PLUGIN_AUTH`.
const CAPABILITIES: u32 = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
const PACKET_MAX: u32 = 1 << 24;
const UTF8MB4: u8 = 45;
const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
/// Types of parameters, each with its flag: signed.
const INTEGER: [u8; 2] = [0x08, 0x00];
const BLOB: [u8; 2] = [0xfc, 0x00];

pub(super) struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    sequence: u8,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Statement {
    id: u32,
    parameters: usize,
}

/// The values of one execution, in their order.
#[derive(Debug, Default)]
pub(super) struct Values {
    types: Vec<u8>,
    bytes: Vec<u8>,
}

impl Values {
    pub(super) fn integer(&mut self, value: i64) {
        self.types.extend(INTEGER);
        self.bytes.extend(value.to_le_bytes());
    }

    /// Shorter than 64 KiB.
    pub(super) fn blob(&mut self, value: &[u8]) {
        self.types.extend(BLOB);
        match u8::try_from(value.len()) {
            Ok(length @ ..=250) => self.bytes.push(length),
            _ => {
                let length = u16::try_from(value.len()).expect("a payload of the pipeline is short");
                self.bytes.push(0xfc);
                self.bytes.extend(length.to_le_bytes());
            }
        }
        self.bytes.extend(value);
    }

    pub(super) fn clear(&mut self) {
        self.types.clear();
        self.bytes.clear();
    }
}

impl Client {
    pub(super) fn connect(port: u16, user: &str, database: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("connecting to MariaDB")?;
        stream.set_nodelay(true)?;
        let reader = BufReader::with_capacity(1 << 18, stream.try_clone()?);
        let mut client = Self { stream, reader, sequence: 0 };
        client.packet()?;
        let mut hello = Vec::new();
        hello.extend(CAPABILITIES.to_le_bytes());
        hello.extend(PACKET_MAX.to_le_bytes());
        hello.push(UTF8MB4);
        hello.extend([0; 23]);
        // The empty text between user and database is the password.
        for text in [user, "", database, "mysql_native_password"] {
            hello.extend(text.as_bytes());
            hello.push(0);
        }
        client.send(&hello)?;
        // Asked for another way to sign in: the empty password is the same in each.
        while client.packet()?.first() != Some(&0) {
            client.send(&[])?;
        }
        Ok(client)
    }

    /// A statement without an answer of rows.
    pub(super) fn run(&mut self, text: &str) -> anyhow::Result<()> {
        self.request(QUERY, text.as_bytes())?;
        self.packet().map(drop)
    }

    pub(super) fn prepare(&mut self, text: &str) -> anyhow::Result<Statement> {
        self.request(PREPARE, text.as_bytes())?;
        let mut answer = &*self.packet()?;
        integer(&mut answer, 1)?;
        let id = u32::try_from(integer(&mut answer, 4)?)?;
        let (columns, parameters) = (integer(&mut answer, 2)?, usize::try_from(integer(&mut answer, 2)?)?);
        for described in [parameters > 0, columns > 0] {
            while described && !is_end(&self.packet()?) {}
        }
        Ok(Statement { id, parameters })
    }

    pub(super) fn execute(&mut self, statement: Statement, values: &Values) -> anyhow::Result<()> {
        self.begin(statement, values)?;
        self.packet().map(drop)
    }

    /// Rows of two integers and a blob.
    pub(super) fn rows(&mut self, statement: Statement, values: &Values) -> anyhow::Result<Vec<TaskRow>> {
        self.begin(statement, values)?;
        self.packet()?;
        while !is_end(&self.packet()?) {}
        let mut rows = Vec::new();
        loop {
            let packet = self.packet()?;
            if is_end(&packet) {
                return Ok(rows);
            }
            let mut rest = packet.get(2..).context("a short row")?;
            let (id, execute_at) = (integer(&mut rest, 8)?, integer(&mut rest, 8)?);
            let payload = rest.get(1..).context("a short row")?.to_vec();
            rows.push(TaskRow { id, execute_at: i64::from_le_bytes(execute_at.to_le_bytes()), payload });
        }
    }

    fn begin(&mut self, statement: Statement, values: &Values) -> anyhow::Result<()> {
        let mut body = Vec::with_capacity(values.types.len() * 2 + values.bytes.len() + 64);
        body.extend(statement.id.to_le_bytes());
        body.extend([0, 1, 0, 0, 0]);
        body.resize(body.len() + statement.parameters.div_ceil(8), 0);
        body.push(1);
        body.extend(&values.types);
        body.extend(&values.bytes);
        self.request(EXECUTE, &body)
    }

    fn request(&mut self, command: u8, body: &[u8]) -> anyhow::Result<()> {
        self.sequence = 0;
        let mut packet = Vec::with_capacity(body.len() + 1);
        packet.push(command);
        packet.extend(body);
        self.send(&packet)
    }

    fn send(&mut self, body: &[u8]) -> anyhow::Result<()> {
        let length = u32::try_from(body.len()).ok().filter(|length| *length < PACKET_MAX - 1);
        let [a, b, c, _] = length.context("a packet that is too long")?.to_le_bytes();
        let mut packet = Vec::with_capacity(body.len() + 4);
        packet.extend([a, b, c, self.sequence]);
        packet.extend(body);
        self.stream.write_all(&packet).context("sending to MariaDB")
    }

    fn packet(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut head = [0; 4];
        self.reader.read_exact(&mut head).context("reading from MariaDB")?;
        let [a, b, c, sequence] = head;
        self.sequence = sequence.wrapping_add(1);
        let mut packet = vec![0; usize::try_from(u32::from_le_bytes([a, b, c, 0]))?];
        self.reader.read_exact(&mut packet).context("reading from MariaDB")?;
        if packet.first() == Some(&0xff) {
            anyhow::bail!("MariaDB: {}", String::from_utf8_lossy(packet.get(3..).unwrap_or_default()));
        }
        Ok(packet)
    }
}

#[derive(Debug)]
pub(super) struct TaskRow {
    pub(super) id: u64,
    pub(super) execute_at: i64,
    pub(super) payload: Vec<u8>,
}

fn is_end(packet: &[u8]) -> bool {
    packet.first() == Some(&0xfe) && packet.len() < 9
}

/// Takes an integer of so many bytes from the front, the lowest first.
fn integer(rest: &mut &[u8], length: usize) -> anyhow::Result<u64> {
    let (bytes, left) = rest.split_at_checked(length).context("a short packet")?;
    *rest = left;
    Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}
