//! The library reads a project's settings as the command does.

use contexture::config::Config;
use contexture::trust::{Settings, SettingsFile, TrustFile};
use contexture::{Engine, Request, Root, Timestamp};

const SETTINGS: &str = "recipe = 'broker'\n[environment]\ncommand = ['sh', '-c', \
     'touch ran; echo \"{}\"']\n";

fn request() -> Request {
    Request {
        event: Some("Hello".into()),
        max_tokens: Some(4000),
        ..Request::default()
    }
}

#[test]
fn an_engine_of_a_root_is_restricted_and_reports_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("contexture.toml"), SETTINGS).unwrap();
    let root = Root::open(dir.path()).unwrap();
    let ran = || std::fs::remove_file(dir.path().join("ran")).is_ok();

    let engine = Engine::for_root(&root).unwrap();
    let report = engine.assemble(&root, &request()).unwrap().report.clone();
    assert!(!ran());
    assert_eq!(report.warnings[0].code, "settings_inactive");
    assert_eq!(engine.settings_warnings(), &report.warnings[..1]);

    // Trusted by a list.
    let data = tempfile::tempdir().unwrap();
    let list = TrustFile::at(data.path().join("trusted"));
    let file = SettingsFile::read(&root).unwrap().unwrap();
    list.trust(&file, Timestamp::UNIX_EPOCH).unwrap();
    let settings = Settings::read(&root, &list).unwrap();
    let engine = Engine::builder().settings(settings).build().unwrap();
    let assembled = engine.assemble(&root, &request()).unwrap();
    assert!(ran());
    let mut warnings = assembled.report.warnings.iter();
    assert!(!warnings.any(|warning| warning.code == "settings_inactive"));

    // A program that reads the settings itself trusts them.
    let engine = Engine::new(Config::read(&root).unwrap(), &root).unwrap();
    engine.assemble(&root, &request()).unwrap();
    assert!(ran());
}
