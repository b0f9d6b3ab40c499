//! Passwords on command lines.

use super::blocks::{folded, skip};
use super::{Secret, value};

/// The number of bytes that are read backwards for the name of a program.
const LINE_MAX: usize = 300;
/// The longest password on a command line.
const PASSWORD_MAX: usize = 1024;

/// How the value of a flag is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// `-u user:password`.
    Pair(u8),
    /// `-p password` or `-ppassword`.
    Whole,
}

/// Passwords given to programs: `curl -u user:password`, `sshpass -p password`,
/// `mysql -ppassword`, `redis-cli -a password`, `ldapsearch -w password`, `snmpwalk -c password`.
/// `at` is the blank or the dash.
pub(super) fn flag(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let at = skip(bytes, at, 1, b" ");
    let (names, form): (&[&str], Form) = match bytes.get(at..at + 2)? {
        b"-u" if has_program(bytes, at, &["lftp"]) => (&["lftp"], Form::Pair(b',')),
        b"-u" => (&["curl", "wget", "http", "xh "], Form::Pair(b':')),
        b"-U" => (&["smbclient", "rpcclient", "curl"], Form::Pair(b'%')),
        b"--" if folded(bytes, at, "--user") => (&["curl", "wget", "http"], Form::Pair(b':')),
        b"--" if folded(bytes, at, "--proxy-user") => (&["curl", "wget"], Form::Pair(b':')),
        b"-p" => (
            &[
                "mysql", "mariadb", "sshpass", "login", "mongo", "sqlcmd", "7z", "winrm",
                "useradd", "usermod", "plink", "pscp",
            ],
            Form::Whole,
        ),
        b"-P" => (
            &["zip ", "sqlcmd", "bcp ", "osql", "isql", "mosquitto_"],
            Form::Whole,
        ),
        b"-a" => (&["redis-cli"], Form::Whole),
        b"-w" => (&["ldap"], Form::Whole),
        b"-c" => (&["snmp"], Form::Whole),
        _ => return None,
    };
    let pair = form != Form::Whole;
    let mut pos = at + 2;
    while bytes
        .get(pos)
        .is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'-')
        && pair
    {
        pos += 1;
        if pos > at + 14 {
            return None;
        }
    }
    let named = skip(bytes, pos, 3, b" =");
    // `-p` may be joined to its value; the others may not.
    if pair && named == pos {
        return None;
    }
    let quote = bytes
        .get(named)
        .copied()
        .filter(|byte| matches!(byte, b'"' | b'\''));
    let mut start = named + usize::from(quote.is_some());
    let length = bytes
        .get(start..)?
        .iter()
        .take(PASSWORD_MAX)
        .position(|byte| match quote {
            Some(quote) => *byte == quote || *byte == b'\n',
            None => *byte <= b' ' || b"\"'`;|<>\\".contains(byte),
        });
    let end = match length {
        Some(length) => start + length,
        None if bytes.len() - start < PASSWORD_MAX => bytes.len(),
        None => return None,
    };
    if let Form::Pair(parted) = form {
        start += bytes[start..end].iter().position(|byte| *byte == parted)? + 1;
    }
    let password = text.get(start..end)?;
    if password.len() < 4
        || value::is_placeholder(password)
        || !(value::is_password(password, true) || value::is_key(password))
    {
        return None;
    }
    has_program(bytes, at, names).then_some(Secret {
        range: start..end,
        rule: "command-line-password",
    })
}

/// Returns true if one of `names` is on the line before `at`.
fn has_program(bytes: &[u8], at: usize, names: &[&str]) -> bool {
    let from = at.saturating_sub(LINE_MAX);
    let line = memchr::memrchr(b'\n', &bytes[from..at]).map_or(from, |end| from + end + 1);
    names
        .iter()
        .any(|name| value::contains(&bytes[line..at], name.as_bytes()))
}
