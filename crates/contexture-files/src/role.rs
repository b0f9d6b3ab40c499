//! Sections of the system prompt: the role of the agent, its task, and where
//! it runs.
//!
//! The texts for the roles manager, worker and unified are constants at the
//! end of the file. Changing one changes the prompt of every agent and ends
//! its provider's prompt cache.

use contexture_core::Item;
use contexture_core::guard::Policy;
use contexture_store::AgentRole;

use crate::error::Error;
use crate::static_content::StaticContent;

impl StaticContent {
    /// Returns the section with the task. For a worker it is a system prompt of
    /// its own, before everything else.
    ///
    /// Fails for a worker that has none: there would be nothing to do, and nothing
    /// to choose its environment by.
    pub(crate) fn task(
        &self,
        role: AgentRole,
        task: Option<&str>,
        policy: Policy,
    ) -> Result<Vec<Item>, Error> {
        let task = task.map(str::trim).filter(|task| !task.is_empty());
        let text = match (role, task) {
            (AgentRole::Worker, Some(task)) => {
                format!("{WORKER}\n\n## Your Task\n\n{task}\n\n{RULES}")
            }
            (AgentRole::Worker, None) => {
                return Err(Error::input("role worker needs a task")
                    .advise(crate::advice::Advice::set("task"))
                    .advise("create the session with a task"));
            }
            (_, Some(task)) => format!("## Your Task\n\n{task}"),
            (_, None) => return Ok(Vec::new()),
        };
        Ok(self.section("task", &text, policy).into_iter().collect())
    }

    /// Returns the section about the role of the agent.
    pub(crate) fn role(&self, role: AgentRole, policy: Policy) -> Vec<Item> {
        let text = match role {
            AgentRole::Manager => MANAGER,
            AgentRole::Unified => UNIFIED,
            // A worker's role and task are one.
            AgentRole::Worker => return Vec::new(),
        };
        self.section("role", text, policy).into_iter().collect()
    }

    /// Returns the section about the runtime: facts that stay the same on this
    /// machine from turn to turn.
    pub(crate) fn runtime(&self, host: Option<&str>, policy: Policy) -> Vec<Item> {
        // A provider has no business knowing the machine's name.
        let host = host.map_or_else(String::new, |host| format!("Host: {host} | "));
        let text = format!(
            "## Runtime\n\n{host}OS: {} | Arch: {}",
            std::env::consts::OS,
            std::env::consts::ARCH
        );
        self.section("runtime", &text, policy).into_iter().collect()
    }
}

const MANAGER: &str = "\
## Your Role

You are the manager: you talk to the user and decide what is done.

- Answer on the platform that the message came from, with the actions it offers.
- Give work that takes long to workers, one task each, with all they need to know: they see nothing of this conversation.
- Look at what a worker reports before you pass it on.";

const UNIFIED: &str = "\
## Your Role

You talk to the user and do the work yourself.";

const WORKER: &str = "\
# Subagent Context

You are a **worker agent** spawned for a specific task.";

const RULES: &str = "\
## Rules

1. Stay focused: do your assigned task, nothing else.
2. Complete the task: your final message reports back to the manager.
3. Don't initiate: no proactive actions, no side quests.
4. Be ephemeral: you may be terminated after completion.

## What You DON'T Do

- NO user conversations (that is the manager's job)
- NO external messages unless explicitly tasked
- NO persistent state changes outside your task scope";
