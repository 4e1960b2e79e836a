//! What the program ships as: the Debian package put into a root of its own and used from there, the unit by systemd's own
//! checks, the manifests and the image by what must hold in them, the manual and the settings by what the binary says.

use crate::binary::{Running, address, punctual, run, stderr, stdout, wait_for};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap()
}

#[track_caller]
fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}{}", stdout(&output), stderr(&output));
    output
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn the_package_has_all_that_a_service_needs_and_runs_from_a_root_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let built = done(
        Command::new(top().join("scripts/package"))
            .args(["--fast", "--binary", env!("CARGO_BIN_EXE_punctual"), "--to"])
            .arg(dir.path().join("built")),
    );
    let package = PathBuf::from(stdout(&built).trim());
    let field = |name: &str| stdout(&done(Command::new("dpkg-deb").arg("-f").arg(&package).arg(name)));
    assert_eq!(field("Package").trim(), "punctual");
    assert_eq!(field("Version").trim(), env!("CARGO_PKG_VERSION"));
    let root = dir.path().join("root");
    done(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root));
    let control = dir.path().join("control");
    done(Command::new("dpkg-deb").arg("-e").arg(&package).arg(&control));
    assert_eq!(fs::read_to_string(control.join("conffiles")).unwrap().trim(), "/etc/punctual/punctual.toml");
    for script in ["postinst", "prerm", "postrm"] {
        done(Command::new("sh").arg("-n").arg(control.join(script)));
        assert_eq!(mode(&control.join(script)), 0o755);
    }
    for file in [
        "usr/lib/systemd/system/punctual.service",
        "usr/lib/sysusers.d/punctual.conf",
        "usr/lib/tmpfiles.d/punctual.conf",
        "usr/share/man/man1/punctual.1.gz",
        "usr/share/man/man1/punctual-task-insert.1.gz",
        "usr/share/bash-completion/completions/punctual",
        "usr/share/zsh/vendor-completions/_punctual",
        "usr/share/fish/vendor_completions.d/punctual.fish",
        "usr/share/doc/punctual/copyright",
        "usr/share/doc/punctual/docs/install.md",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    let settings = root.join("etc/punctual/punctual.toml");
    assert_eq!(mode(&settings), 0o640, "it may hold secrets");

    // As the unit runs it, but for the place of the data.
    let (data, binary) = (dir.path().join("data"), root.join("usr/bin/punctual"));
    let mut command = Command::new(&binary);
    for (name, _) in std::env::vars().filter(|var| var.0.starts_with("PUNCTUAL_")) {
        command.env_remove(name);
    }
    command
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--config"])
        .arg(&settings)
        .arg("--data")
        .arg(&data);
    let mut service = Running::start(&mut command);
    let url = address(&service.first_line());
    let inserted = run(&["task", "insert", "--queue", "mail", "--json", "--url", &url]);
    assert!(inserted.status.success(), "{}", stderr(&inserted));
    service.signal("-TERM");
    let (ended, said) = service.ended_saying();
    assert!(ended.success(), "{said}");
    assert!(data.join("punctual.db").is_file());
}

/// Where a package manager installs: nothing of the machine's own.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        for name in ["info", "updates", "triggers"] {
            fs::create_dir_all(root.path(&format!("var/lib/dpkg/{name}"))).unwrap();
        }
        for name in ["status", "available"] {
            fs::write(root.path(&format!("var/lib/dpkg/{name}")), "").unwrap();
        }
        root
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// With its scripts, which see the root in a variable; what they depend on is the machine's.
    fn dpkg(&self, args: &[&str], package: &Path) {
        let mut dpkg = Command::new("fakeroot");
        dpkg.arg("dpkg").arg(format!("--root={}", self.0.path().display()));
        dpkg.args(["--force-script-chrootless", "--force-depends", "--force-confold", "--no-triggers"]);
        done(dpkg.args(args).arg(package).env("DEBIAN_FRONTEND", "noninteractive"));
    }

    fn status(&self) -> String {
        fs::read_to_string(self.path("var/lib/dpkg/status")).unwrap()
    }
}

/// The next version of a package: its settings have a line more.
fn next_version(package: &Path, dir: &Path) -> PathBuf {
    let (tree, next) = (dir.join("next"), dir.join("next.deb"));
    done(Command::new("dpkg-deb").arg("-R").arg(package).arg(&tree));
    let rewrite = |file: &str, change: &dyn Fn(String) -> String| {
        let file = tree.join(file);
        fs::write(&file, change(fs::read_to_string(&file).unwrap())).unwrap();
    };
    let version = format!("Version: {}", env!("CARGO_PKG_VERSION"));
    rewrite("DEBIAN/control", &|text| text.replace(&version, "Version: 99.0.0"));
    rewrite("etc/punctual/punctual.toml", &|text| text + "# of the next version\n");
    done(Command::new("dpkg-deb").args(["-Zgzip", "-z1", "--root-owner-group", "-b"]).arg(&tree).arg(&next));
    next
}

#[test]
fn the_package_is_installed_upgraded_removed_and_purged_and_the_tasks_stay() {
    let dir = tempfile::tempdir().unwrap();
    // What it runs is not looked at here, and a small one is packed in no time.
    let binary = dir.path().join("debug/punctual");
    fs::create_dir(dir.path().join("debug")).unwrap();
    fs::write(&binary, format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_punctual"))).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let mut package = Command::new(top().join("scripts/package"));
    package.args(["--fast", "--binary"]).arg(&binary).arg("--to").arg(dir.path().join("built"));
    let package = PathBuf::from(stdout(&done(&mut package)).trim());
    let root = Root::new();
    root.dpkg(&["-i"], &package);
    assert!(root.status().contains("Status: install ok installed"), "{}", root.status());
    let users = fs::read_to_string(root.path("etc/passwd")).unwrap();
    assert!(users.contains("punctual:x:") && users.contains(":/var/lib/punctual:"), "{users}");
    assert_eq!(mode(&root.path("var/lib/punctual")), 0o700);
    let settings = root.path("etc/punctual/punctual.toml");
    assert_eq!(mode(&settings), 0o640);

    let tasks = root.path("var/lib/punctual/punctual.db");
    fs::write(&tasks, "tasks").unwrap();
    let edited = fs::read_to_string(&settings).unwrap() + "# of the operator\n";
    fs::write(&settings, &edited).unwrap();
    root.dpkg(&["-i"], &next_version(&package, dir.path()));
    assert!(root.status().contains("Version: 99.0.0"), "{}", root.status());
    assert_eq!(fs::read_to_string(&settings).unwrap(), edited, "what was changed stays");
    let offered = fs::read_to_string(root.path("etc/punctual/punctual.toml.dpkg-dist")).unwrap();
    assert!(offered.contains("# of the next version"));

    root.dpkg(&["-r"], Path::new("punctual"));
    assert!(!root.path("usr/bin/punctual").exists() && settings.exists() && tasks.exists());
    root.dpkg(&["-P"], Path::new("punctual"));
    assert!(!settings.exists(), "the settings go with a purge");
    assert_eq!(fs::read_to_string(&tasks).unwrap(), "tasks", "and the tasks do not");
    let users = fs::read_to_string(root.path("etc/passwd")).unwrap();
    assert!(users.contains("punctual:x:"), "nor whose they are");
}

#[test]
fn the_settings_of_the_package_are_the_binarys_and_say_where_the_data_is() {
    let dir = tempfile::tempdir().unwrap();
    let init = run(&["config", "--init", "--set", "data=/var/lib/punctual"]);
    let file = dir.path().join("punctual.toml");
    fs::write(&file, stdout(&init)).unwrap();
    let shown = run(&["config", "--json", "--config", file.to_str().unwrap()]);
    let shown: Value = serde_json::from_str(&stdout(&shown)).unwrap();
    let set: Vec<&Value> =
        shown["settings"].as_array().unwrap().iter().filter(|setting| setting["source"] == "file").collect();
    assert_eq!(set.len(), 1, "{set:?}");
    assert_eq!((&set[0]["key"], &set[0]["value"]), (&"data".into(), &"/var/lib/punctual".into()));
}

#[test]
fn systemd_takes_the_unit_and_finds_it_hard() {
    let dir = tempfile::tempdir().unwrap();
    // Where this machine's copy is.
    let unit = read("deploy/systemd/punctual.service");
    assert!(unit.contains("ExecStart=/usr/bin/punctual serve --config /etc/punctual/punctual.toml\n"));
    let here = unit
        .replace("/usr/bin/punctual", env!("CARGO_BIN_EXE_punctual"))
        .replace("man:punctual(1)", "https://example.com");
    let path = dir.path().join("punctual.service");
    fs::write(&path, here).unwrap();
    let verified = done(Command::new("systemd-analyze").arg("verify").arg(&path));
    let said = stdout(&verified) + &stderr(&verified);
    assert!(!said.contains("punctual.service:"), "{said}");
    let mut security = Command::new("systemd-analyze");
    // In tenths: 2.0 and better.
    security.args(["security", "--offline=true", "--no-pager", "--threshold=20"]).arg(&path);
    done(&mut security);
    // What it is given to stop is more than it takes: 5 s for requests and 15 s to hand back.
    assert!(unit.contains("TimeoutStopSec=30s"));
}

/// Documents of YAML as JSON, by the tests' own small reader: blocks of maps and lists, flow maps and lists, and quoted text.
fn documents(text: &str) -> Vec<Value> {
    text.split("\n---\n")
        .map(|part| yaml::document(part).unwrap_or_else(|error| panic!("{error}: {part}")))
        .collect()
}

#[test]
fn the_manifests_stop_roll_and_probe_as_the_engine_can() {
    let all = documents(&read("deploy/kubernetes/punctual.yaml"));
    let of =
        |kind: &str| all.iter().find(|entry| entry["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"));
    let (deployment, labels) = (of("Deployment"), "app.kubernetes.io/name");
    let pod = &deployment["spec"]["template"];
    let name = &pod["metadata"]["labels"][labels];
    for (kind, pointer) in [
        ("Service", "/spec/selector"),
        ("Deployment", "/spec/selector/matchLabels"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
    ] {
        assert_eq!(&of(kind).pointer(pointer).unwrap()[labels], name, "{kind} is not of these pods");
    }
    assert_eq!(of("PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
    let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
    assert_eq!((&rolling["maxUnavailable"], &rolling["maxSurge"]), (&0.into(), &1.into()));
    let spec = &pod["spec"];
    assert!(spec["terminationGracePeriodSeconds"].as_i64().unwrap() >= 25, "5 s and 15 s, and some to spare");
    let container = &spec["containers"][0];
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    for probe in ["livenessProbe", "startupProbe"] {
        assert_eq!(container[probe]["httpGet"]["path"], "/livez", "{probe}");
        assert_eq!(container[probe]["httpGet"]["port"], container["ports"][0]["name"]);
    }
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    // What it names is there: mounts, and variables that are settings.
    let volumes: Vec<&Value> =
        spec["volumes"].as_array().unwrap().iter().map(|volume| &volume["name"]).collect();
    for mount in container["volumeMounts"].as_array().unwrap() {
        assert!(volumes.contains(&&mount["name"]), "{mount}");
    }
    let known = stdout(&run(&["config", "--json"]));
    for variable in container["env"].as_array().unwrap() {
        let name = variable["name"].as_str().unwrap().strip_suffix("_FILE").unwrap();
        assert!(known.contains(&format!("\"{name}\"")), "{name} is no setting");
    }
    // Its settings are settings.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("punctual.toml");
    fs::write(&file, of("ConfigMap")["data"]["punctual.toml"].as_str().unwrap()).unwrap();
    let shown = punctual(&["config", "--config"]).arg(&file).output().unwrap();
    assert!(shown.status.success(), "{}", stderr(&shown));
}

#[test]
fn the_monitor_of_pods_asks_the_port_of_the_pods_with_a_token() {
    let manifests = read("deploy/kubernetes/punctual.yaml");
    assert!(!manifests.contains("prometheus.io/"), "an annotation brings no token");
    let all = documents(&manifests);
    let deployment = all.iter().find(|deployment| deployment["kind"] == "Deployment").unwrap();
    let monitor = documents(&read("deploy/kubernetes/podmonitor.yaml")).remove(0);
    let pod = &deployment["spec"]["template"];
    let labels = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
    assert!(labels.iter().all(|(name, value)| &pod["metadata"]["labels"][name] == value), "{labels:?}");
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let container = &pod["spec"]["containers"][0];
    assert_eq!(endpoint["port"], container["ports"][0]["name"]);
    assert_eq!(endpoint["path"], "/metrics");
    let credentials = &endpoint["authorization"]["credentials"];
    assert_eq!(credentials["name"], pod["spec"]["volumes"][1]["secret"]["secretName"]);
    let page = read("docs/install.md");
    assert!(page.contains(&format!("`{}`", credentials["key"].as_str().unwrap())), "it says so");
}

/// What a validator of Kubernetes' own schemas says of a file, and whether it takes it. A kind that it does not know is only
/// warned of, and is not taken here.
fn validated(manifest: &Path, version: &str) -> (bool, String) {
    let mut validator = Command::new(crate::clients::tools().join("venv/bin/kubernetes-validate"));
    let output = validator.args(["--strict", "-k", version]).arg(manifest).output().unwrap();
    let said = stdout(&output) + &stderr(&output);
    (output.status.success() && !said.contains("WARN") && !said.contains("ERROR"), said)
}

/// Seen to fail: with a field of the Deployment misspelt in the manifest itself.
#[test]
fn the_manifests_are_what_kubernetes_takes_and_broken_ones_are_not() {
    let manifest = top().join("deploy/kubernetes/punctual.yaml");
    let count = documents(&fs::read_to_string(&manifest).unwrap()).len();
    for version in ["1.29", "1.37"] {
        let (is_taken, said) = validated(&manifest, version);
        assert!(is_taken, "{version}: {said}");
        assert_eq!(said.matches(" passed for resource ").count(), count, "{version}: {said}");
    }
    let dir = tempfile::tempdir().unwrap();
    for (right, wrong) in [
        ("replicas: 3", "replicas: three"),
        ("minReadySeconds: 10", "minReadySecs: 10"),
        ("path: /livez", "pth: /livez"),
        ("apiVersion: policy/v1\n", "apiVersion: policy/v1beta1\n"),
    ] {
        let text = fs::read_to_string(&manifest).unwrap();
        assert!(text.contains(right), "{right}");
        let broken = dir.path().join("broken.yaml");
        fs::write(&broken, text.replacen(right, wrong, 1)).unwrap();
        let (is_taken, said) = validated(&broken, "1.37");
        assert!(!is_taken, "{wrong}: {said}");
    }
}

#[test]
fn an_engine_that_is_told_to_stop_is_not_ready_and_ends_within_its_grace() {
    let (mut server, _data) = crate::binary::Server::on_new_data();
    wait_for("it is ready", || (server.get("/readyz").0 == 200).then_some(()));
    server.process.signal("-TERM");
    let (ended, said) = server.process.ended_saying();
    assert!(ended.success(), "{said}");
}

#[test]
fn the_image_runs_as_nobody_and_is_told_to_stop_as_the_engine_hears() {
    let image = read("deploy/Containerfile");
    for line in ["USER 65450:65450", "STOPSIGNAL SIGTERM", "ENTRYPOINT [\"/usr/bin/punctual\"]"] {
        assert!(image.lines().any(|candidate| candidate == line), "{line}");
    }
    let rust = read("Cargo.toml")
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .unwrap()
        .replace('"', "");
    assert!(image.contains(&format!("rust:{rust}-")), "the image builds with Rust {rust}");
    assert!(read("deploy/kubernetes/punctual.yaml").contains("runAsUser: 65450"));
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let dir = tempfile::tempdir().unwrap();
    let written = run(&["man", "--to", dir.path().to_str().unwrap()]);
    assert!(written.status.success(), "{}", stderr(&written));
    for page in
        ["punctual", "punctual-serve", "punctual-task-insert", "punctual-events", "punctual-shard-move"]
    {
        let text = fs::read_to_string(dir.path().join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    let insert = fs::read_to_string(dir.path().join("punctual-task-insert.1")).unwrap();
    assert!(insert.contains("punctual task insert"), "{insert}");
    assert!(stdout(&run(&["man"])).contains(".SH NAME"));
}

mod yaml {
    //! As much YAML as the manifests have.
    use serde_json::{Map, Value};

    struct Line<'a> {
        indent: usize,
        text: &'a str,
    }

    pub(super) fn document(text: &str) -> Result<Value, String> {
        let lines: Vec<Line<'_>> = text
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
            .map(|line| Line { indent: line.len() - line.trim_start().len(), text: line.trim_end() })
            .collect();
        let mut at = 0;
        let value = block(&lines, &mut at, 0)?;
        if at == lines.len() { Ok(value) } else { Err(format!("left over: {}", lines[at].text)) }
    }

    fn block(lines: &[Line<'_>], at: &mut usize, indent: usize) -> Result<Value, String> {
        let is_list = lines.get(*at).is_some_and(|line| line.text.trim_start().starts_with("- "));
        if is_list { list(lines, at, indent) } else { map(lines, at, indent, None) }
    }

    fn list(lines: &[Line<'_>], at: &mut usize, indent: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        while let Some(line) = lines.get(*at).filter(|line| line.indent == indent) {
            let Some(rest) = line.text.trim_start().strip_prefix("- ") else { break };
            items.push(if rest.starts_with(['{', '"']) || !rest.contains(": ") && !rest.ends_with(':') {
                *at += 1;
                flow(rest)?
            } else {
                map(lines, at, indent + 2, Some(rest))?
            });
        }
        Ok(Value::Array(items))
    }

    /// `first`: what follows the dash of a list, as the first entry.
    fn map(
        lines: &[Line<'_>],
        at: &mut usize,
        indent: usize,
        mut first: Option<&str>,
    ) -> Result<Value, String> {
        let mut all = Map::new();
        while let Some(line) = lines.get(*at).filter(|line| first.is_some() || line.indent == indent) {
            let text = first.take().unwrap_or_else(|| line.text.trim_start());
            let (key, rest) = text.split_once(':').ok_or_else(|| format!("no key: {text}"))?;
            *at += 1;
            let value = match rest.trim() {
                "|" => literal(lines, at, indent),
                "" => {
                    let below = lines.get(*at).map_or(indent, |line| line.indent);
                    if below < indent {
                        return Err(format!("nothing under {key}"));
                    }
                    block(lines, at, below)?
                }
                flow_text => flow(flow_text)?,
            };
            if all.insert(key.trim_matches('"').to_owned(), value).is_some() {
                return Err(format!("{key} twice"));
            }
        }
        Ok(Value::Object(all))
    }

    fn literal(lines: &[Line<'_>], at: &mut usize, indent: usize) -> Value {
        let mut text = String::new();
        while let Some(line) = lines.get(*at).filter(|line| line.indent > indent) {
            text.push_str(line.text.trim_start());
            text.push('\n');
            *at += 1;
        }
        Value::String(text)
    }

    fn flow(text: &str) -> Result<Value, String> {
        let inner = |open: char, close: char| text.strip_prefix(open)?.strip_suffix(close);
        if let Some(inner) = inner('{', '}') {
            let pair = |text: &str| {
                let (key, value) = text.split_once(':').ok_or_else(|| format!("no key: {text}"))?;
                Ok((key.trim().to_owned(), flow(value.trim())?))
            };
            return Ok(Value::Object(inner.split(',').map(pair).collect::<Result<_, String>>()?));
        }
        if let Some(inner) = inner('[', ']') {
            return Ok(Value::Array(
                inner.split(',').map(|part| flow(part.trim())).collect::<Result<_, _>>()?,
            ));
        }
        if let Some(quoted) = inner('"', '"') {
            return Ok(Value::String(quoted.to_owned()));
        }
        Ok(text
            .parse::<i64>()
            .map(Value::from)
            .or_else(|_| text.parse::<bool>().map(Value::from))
            .unwrap_or_else(|_| text.into()))
    }
}
