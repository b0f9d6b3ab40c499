//! The position of a setting in the text of a `contexture.toml`.

use toml::de::{DeTable, DeValue};

use super::FILE;

/// Returns a message about a setting with the line of the setting: `NAME: …` and
/// `contexture.toml: NAME: …` become `contexture.toml:LINE: NAME: …`. The message is
/// returned unchanged if the text does not have the setting.
pub(super) fn with_line(text: &str, message: &str) -> Option<String> {
    let rest = message
        .strip_prefix(&format!("{FILE}: "))
        .unwrap_or(message);
    let (name, _) = rest.split_once(": ")?;
    let line = line_of(text, name)?;
    Some(format!("{FILE}:{line}: {rest}"))
}

/// Returns the line of a setting in the text of a `contexture.toml`, from 1. `None`
/// if the text does not have it.
pub fn line_of(text: &str, name: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut rest = name;
    loop {
        // A name can contain dots: `models."gpt-5.6".window`.
        let (key, value) = table.iter().find(|(key, _)| {
            let key: &str = key.get_ref();
            rest.strip_prefix(key)
                .is_some_and(|after| after.is_empty() || after.starts_with('.'))
        })?;
        rest = &rest[key.get_ref().len()..];
        match (rest.strip_prefix('.'), value.get_ref()) {
            (None, _) => return Some(text[..key.span().start].matches('\n').count() + 1),
            (Some(after), DeValue::Table(inner)) => (rest, table) = (after, inner),
            (Some(_), _) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_setting_is_found() {
        let text = "model = \"a\"\n\n[server]\nlog = \"off\"\nrate_burst = 1\n\
                    [models.\"a.b\"]\nwindow = 0\n[server.tenants]\nisland = { root = \"x\" }\n";
        for (name, line) in [
            ("model", Some(1)),
            ("server.rate_burst", Some(5)),
            ("models.a.b.window", Some(7)),
            ("server.tenants.island.root", Some(9)),
            ("server.addr", None),
            ("model.x", None),
        ] {
            assert_eq!(line_of(text, name), line, "{name}");
        }
        assert_eq!(
            with_line(text, "server.log: unknown level").as_deref(),
            Some("contexture.toml:4: server.log: unknown level")
        );
        assert_eq!(with_line(text, "nothing is wrong"), None);
    }
}
