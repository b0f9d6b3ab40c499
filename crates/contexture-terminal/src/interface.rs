//! The names of fields and operations on the command line, for advice.
//!
//! The library gives advice as data; [`CommandLine`] turns a field into a flag
//! and an operation into a command. A test of the command parses every one of them.

use contexture::{Interface, Operation};

/// The command line.
pub struct CommandLine;

impl Interface for CommandLine {
    fn field(&self, name: &str) -> Option<String> {
        Some(match name {
            "instructions" => "--instruct".to_owned(),
            name => format!("--{}", name.replace('_', "-")),
        })
    }

    fn operation(&self, operation: Operation, on: Option<&str>) -> Option<String> {
        let (command, placeholder) = match operation {
            Operation::ListSessions => ("session list", None),
            Operation::CreateSession => ("session new", Some("LABEL")),
            Operation::ShowHistory => ("session history", Some("LABEL")),
            Operation::UndoCompaction => ("session uncompact", Some("LABEL")),
            Operation::ReopenSession => ("session reopen", Some("LABEL")),
            Operation::ListTrees => ("tree list", None),
            Operation::ImportTree => ("tree import", Some("FILE")),
            Operation::ShowTree => ("tree show", Some("TREE")),
            Operation::AddNode => ("tree node add", Some("TREE")),
            Operation::FlagNode => ("tree node flag", Some("TREE")),
            Operation::SavePath => ("tree path save", Some("TREE")),
            Operation::ShowTasks => ("task show", None),
            Operation::ListStacks => ("task list", None),
            Operation::PushTask => ("task push", Some("GOAL")),
            Operation::RecordMemory => ("memory record", Some("FILE")),
            Operation::ExportMemory => ("memory export", None),
            Operation::ReembedMemory => ("memory reembed", None),
            Operation::ListKeys => ("key list", None),
            Operation::ListSnapshots => ("snapshot list", None),
            Operation::ListWorkingSet => ("working-set list", None),
            Operation::AdjustPriority => ("working-set adjust", Some("PATH")),
            Operation::CreateProject => ("init", None),
            Operation::ShowSettings => ("doctor --all", None),
            Operation::TrustSettings => ("trust", None),
            Operation::UpdateModels => ("models update", Some("FILE")),
            _ => return None,
        };
        let on = on.map(quoted);
        let object = match (operation, on) {
            (Operation::ShowTasks | Operation::PushTask, Some(stack)) => {
                let goal = placeholder.map(|goal| format!(" {goal}"));
                Some(format!("{} --stack {stack}", goal.unwrap_or_default()))
            }
            (Operation::TrustSettings, Some(root)) => Some(format!(" {root}")),
            (Operation::ListSnapshots, Some(session)) => Some(format!(" --session {session}")),
            // A list shows everything, so it has no argument.
            (_, on) => placeholder.map(|usual| format!(" {}", on.as_deref().unwrap_or(usual))),
        };
        // Arguments that a command needs after its object.
        let rest = match operation {
            Operation::AddNode => " --author WHO TEXT",
            Operation::FlagNode => " NODE --exclude",
            Operation::SavePath => " NAME --head NODE",
            Operation::AdjustPriority => " --priority P --why REASON",
            _ => "",
        };
        Some(format!(
            "`contexture {command}{}{rest}`",
            object.unwrap_or_default()
        ))
    }
}

/// Returns a path or a name quoted for a shell.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    match text.chars().all(plain) && !text.starts_with('-') && !text.is_empty() {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use contexture::{Advice, Warning};

    use super::*;

    #[test]
    fn a_name_is_quoted_for_the_shell() {
        let call = |tree| CommandLine.operation(Operation::ShowTree, Some(tree));
        assert_eq!(
            call("tides").as_deref(),
            Some("`contexture tree show tides`")
        );
        assert_eq!(call("a b").as_deref(), Some("`contexture tree show 'a b'`"));
    }

    #[test]
    fn a_root_is_quoted_for_the_shell() {
        let call = |root| CommandLine.operation(Operation::TrustSettings, Some(root));
        assert_eq!(call("a/b.c").as_deref(), Some("`contexture trust a/b.c`"));
        assert_eq!(
            call("it's $HOME").as_deref(),
            Some(r"`contexture trust 'it'\''s $HOME'`")
        );
    }

    #[test]
    fn a_warning_names_flags_and_commands() {
        let warning = Warning::new("history_compacted", "history was summarised")
            .advise(Advice::call_on(Operation::UndoCompaction, "s"))
            .advise(Advice::raise("max_tokens"))
            .advise(Advice::set("instructions"));
        assert_eq!(
            warning.phrase(&CommandLine),
            "history was summarised; `contexture session uncompact s` undoes the compaction; or \
             raise --max-tokens; or set --instruct"
        );
    }
}
