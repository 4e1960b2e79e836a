//! Servers by name: `punctual profile`, and `--profile` of every command that asks a server.
//!
//! Seen to fail: with a client that begins with the environment's token; with a file whose mode is not looked at; with only the
//! first of several servers.

use crate::binary::{Running, Server, address, documents, punctual, stderr, stdout};
use punctual_testkit::certificates::{Authority, Files};
use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

const TOKEN: &str = "profiles-of-tests-0123456789abcdef";

/// A server with TLS and a token, and a user with settings of their own.
struct ProfileSite {
    server: Server,
    files: Files,
    home: TempDir,
}

impl ProfileSite {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let files = Authority::new().issue_loopback().write_to(home.path());
        let mut command = Server::command(&home.path().join("data"), &[]);
        command.env("PUNCTUAL_TLS_CERT", &files.cert).env("PUNCTUAL_TLS_KEY", &files.key);
        let mut process = Running::start(command.env("PUNCTUAL_AUTH_ADMIN_TOKEN", TOKEN));
        let url = address(&process.first_line());
        Self { server: Server { process, url }, files, home }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = punctual(args);
        command.env("XDG_CONFIG_HOME", self.home.path());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    #[track_caller]
    fn done(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    #[track_caller]
    fn refused(&self, command: &mut Command, words: &[&str]) {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {}", stdout(&output));
        let said = stderr(&output);
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        assert!(!said.contains(TOKEN), "{said}");
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("punctual/profiles.toml")
    }

    /// With the token on stdin.
    #[track_caller]
    fn set_with_token(&self, args: &[&str]) {
        let args = [&["profile", "set"], args, &["--token-stdin"]].concat();
        let mut set = self.command(&args).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        set.stdin.take().unwrap().write_all(format!("{TOKEN}\n").as_bytes()).unwrap();
        let output = set.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }

    fn ca(&self) -> &str {
        self.files.ca.to_str().unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Where no engine listens.
fn nobody() -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("https://{free}")
}

#[test]
fn a_server_is_asked_by_the_name_of_its_profile_with_its_authorities_and_token() {
    let site = ProfileSite::new();
    // The first of them is unavailable.
    let urls = format!("{},{}", nobody(), site.server.url);
    site.set_with_token(&["prod", "--url", &urls, "--ca", site.ca(), "--namespace", "shop"]);
    assert_eq!((mode(&site.file()), mode(site.file().parent().unwrap())), (0o600, 0o700));
    let insert = ["task", "insert", "--queue", "mail", "--delay", "1h", "--profile", "prod", "--json"];
    let task = &documents(&site.run(&insert))[0];
    assert_eq!(task["namespace"], "shop");
    let other = documents(&site.run(&[&insert[..], &["--namespace", "other"]].concat())).remove(0);
    assert_eq!(other["namespace"], "other", "a flag is over the profile");
    let tokens = site.done(&["token", "list", "--profile", "prod", "--json"]);
    assert!(tokens.contains("items"), "{tokens}");

    // By the environment, and by default.
    let mut command = site.command(&["queue", "list"]);
    assert!(command.env("PUNCTUAL_PROFILE", "prod").output().unwrap().status.success());
    site.refused(command.env("PUNCTUAL_URL", &site.server.url), &["PUNCTUAL_PROFILE", "PUNCTUAL_URL"]);
    site.done(&["profile", "use", "prod"]);
    assert!(site.done(&["queue", "list"]).contains("mail"));
    let listed = site.done(&["profile", "list"]) + &site.done(&["profile", "list", "--json"]);
    assert!(listed.contains("prod") && listed.contains("default") && listed.contains("kept"), "{listed}");
    assert!(!listed.contains(TOKEN), "{listed}");
    assert!(fs::read_to_string(site.file()).unwrap().contains(TOKEN));

    // What is named is changed, and the rest stays.
    site.done(&["profile", "set", "prod", "--namespace", "default"]);
    assert!(site.done(&["queue", "list", "--json"]).contains("items"));
    site.done(&["profile", "remove", "prod"]);
    site.refused(&mut site.command(&["queue", "list", "--profile", "prod"]), &["\"prod\"", "profile set"]);
    let both = site.run(&["queue", "list", "--profile", "prod", "--url", &site.server.url]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

#[test]
fn nothing_of_the_environment_is_sent_to_the_server_of_a_profile() {
    let site = ProfileSite::new();
    site.done(&["profile", "set", "bare", "--url", &site.server.url, "--ca", site.ca()]);
    let mut command = site.command(&["queue", "list", "--profile", "bare"]);
    site.refused(command.env("PUNCTUAL_TOKEN", TOKEN), &["auth.required"]);
    // The token of a file is read each time.
    let file = site.home.path().join("token");
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    site.done(&["profile", "set", "bare", "--token-file", file.to_str().unwrap()]);
    site.done(&["queue", "list", "--profile", "bare"]);
    fs::write(&file, "another-token-0123456789\n").unwrap();
    site.refused(&mut site.command(&["queue", "list", "--profile", "bare"]), &["auth.required"]);
}

#[test]
fn a_file_that_others_can_read_and_one_that_is_faulty_are_refused() {
    let site = ProfileSite::new();
    site.set_with_token(&["prod", "--url", &site.server.url, "--ca", site.ca(), "--default"]);
    let whole = fs::read_to_string(site.file()).unwrap();
    fs::set_permissions(site.file(), fs::Permissions::from_mode(0o644)).unwrap();
    for args in [&["queue", "list"][..], &["queue", "list", "--profile", "prod"], &["profile", "list"]] {
        site.refused(&mut site.command(args), &["chmod 600", "profiles.toml"]);
    }
    // Without a profile it is not read.
    let plain = ["queue", "list", "--url", &site.server.url, "--ca", site.ca()];
    assert!(site.command(&plain).env("PUNCTUAL_TOKEN", TOKEN).output().unwrap().status.success());
    fs::set_permissions(site.file(), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(site.file(), whole.replace("urls", "adresses")).unwrap();
    site.refused(&mut site.command(&["queue", "list"]), &["profiles.toml", "line"]);
    for args in [
        &["profile", "set", "new"][..],
        &["profile", "set", "a/b", "--url", "http://a"],
        &["profile", "set", "new", "--url", "ftp://a"],
    ] {
        fs::write(site.file(), &whole).unwrap();
        assert!(!site.run(args).status.success(), "{args:?}");
        assert_eq!(fs::read_to_string(site.file()).unwrap(), whole, "{args:?}");
    }
}
