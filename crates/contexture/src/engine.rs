//! [`Engine`]: the engine with all built-in sources, and the store.
//!
//! It wraps the engine of `contexture-engine` and registers the sources of
//! files, history, looms and memory, and the built-in recipes. A program can
//! register its own sources and recipes, or replace built-in ones.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use contexture_core::guard::MarkKey;
use contexture_core::{TokenCounter, Tokens};
use contexture_engine::config::Config;
use contexture_engine::snapshot::Comparison;
use contexture_engine::trust::{Settings, TrustFile};
use contexture_engine::{
    Error, EventSource, ItemsSource, Preview, Recipe, RecipeRef, Request, Root, Source, Summariser,
    SystemSource, Warning, session_files,
};
use contexture_history::compaction::{Attempt, Compacted, Undone};
use contexture_history::{
    CompactRequest, FetchRequest, Fetched, PinRequest, Recording, SessionCost, Sessions, TurnWrite,
};
use contexture_loom::{FlagChange, Looms, NewNode, NodeEdit};
use contexture_memory::{Archetypes, Memory, MemoryCache};
use contexture_recall::Embedder;
use contexture_store::{
    Deleted, Flags, Imported, Ledger, Memories, NewSession, NewTurn, NodeHead, Recorded, Samples,
    SavedPath, Session, SessionPin, Snapshots, Store, StoreError, Tasks, TreeDocument, TreeMode,
    Trees, Turn, TurnId,
};
use jiff::Timestamp;

use crate::Assembled;
use crate::fit::ConversationCache;
use crate::recipes;

/// Builds an engine with all built-in sources: see [`Engine::builder`].
pub struct EngineBuilder {
    inner: contexture_engine::EngineBuilder,
    store: Option<Arc<dyn Store>>,
    embedder: Option<Arc<dyn Embedder>>,
}

/// Defines methods that call the engine's own builder.
macro_rules! pass_on {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, $($argument: $type),*) -> Self {
            self.inner = self.inner.$name($($argument),*);
            self
        })*
    };
}

impl EngineBuilder {
    pass_on! {
        /// Sets the settings. Default: those of an empty `contexture.toml`.
        config(config: Config);
        /// Uses the settings of a root. Every report warns about inactive
        /// settings.
        settings(settings: Settings);
        /// Sets what paths in the settings are relative to.
        folder(folder: &Path);
        /// Sets the ledger of conversations.
        ledger(ledger: Arc<dyn Ledger>);
        /// Sets the store of snapshots.
        snapshots(snapshots: Arc<dyn Snapshots>);
        /// Sets the store of calibration samples.
        samples(samples: Arc<dyn Samples>);
        /// Sets the store of loom trees.
        trees(trees: Arc<dyn Trees>);
        /// Sets the store of memory records.
        memories(memories: Arc<dyn Memories>);
        /// Sets the store of tasks.
        tasks(tasks: Arc<dyn Tasks>);
        /// Registers a source, to be used in any recipe. One of the same name is
        /// replaced, a built-in one too.
        source(source: impl Source + 'static);
        /// Registers a recipe by its name.
        recipe(recipe: Recipe);
        /// Registers what counts the tokens of a model.
        counter(model: impl Into<String>, counter: Arc<dyn TokenCounter>);
        /// Sets what writes summaries. Default: by the settings.
        summariser(summariser: Arc<dyn Summariser>);
        /// Makes the engine safe for requests from untrusted callers: a recipe
        /// file must then be below the root.
        confined();
        /// Makes the engine return a request before its snapshot is on disk.
        background_snapshots();
        /// Calls `failed` for every request that could not be saved.
        on_snapshot_error(failed: impl Fn(&StoreError) + Send + Sync + 'static);
        /// Sets the secret that boundary marks are derived from. Default: the
        /// store's own, else a random one that lasts as long as the engine.
        mark_key(key: MarkKey);
    }

    /// Uses the settings of `root`; paths in them are relative to it.
    ///
    /// Settings that run commands, name endpoints, send environment variables
    /// or leave the root are active only if the user has trusted the file
    /// ([`contexture_engine::trust`]). A program that trusts its file itself
    /// passes `Config::read(root)` to [`config`](Self::config).
    ///
    /// Fails if its `contexture.toml` cannot be read.
    pub fn root(self, root: &Root) -> Result<Self, Error> {
        Ok(self.settings(Settings::read(root, &TrustFile::of_user())?))
    }

    /// Sets all parts of a store.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.inner = self.inner.store(Arc::clone(&store));
        self.store = Some(store);
        self
    }

    /// Sets what makes vectors. Default: by the settings.
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Returns the engine.
    ///
    /// Fails when the settings name a model that cannot be.
    pub fn build(self) -> Result<Engine, Error> {
        let memory = Arc::new(MemoryCache::new(self.embedder));
        let mut inner = contexture_memory::register(self.inner, &memory);
        for (at, name) in recipes::names().enumerate() {
            inner = inner.usual_recipe(name, move || recipes::read(at));
        }
        Ok(Engine {
            inner: inner.build()?,
            store: self.store,
            memory,
            conversations: ConversationCache::default(),
        })
    }
}

/// Assembles requests, and stores conversations, trees, memories and tasks.
///
/// It is the [engine](contexture_engine::Engine) with all built-in sources and
/// recipes, and has all of its methods.
pub struct Engine {
    inner: contexture_engine::Engine,
    store: Option<Arc<dyn Store>>,
    memory: Arc<MemoryCache>,
    pub(crate) conversations: ConversationCache,
}

impl Deref for Engine {
    type Target = contexture_engine::Engine;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl Engine {
    /// Returns a builder of an engine with all built-in sources and recipes.
    pub fn builder() -> EngineBuilder {
        let mut inner = contexture_engine::Engine::builder()
            .source(EventSource)
            .source(SystemSource)
            .source(ItemsSource);
        inner = contexture_files::register(inner);
        inner = contexture_history::register(inner);
        inner = contexture_loom::register(inner);
        EngineBuilder {
            inner,
            store: None,
            embedder: None,
        }
    }

    /// Returns an engine with the settings of `root`, without a store. See
    /// [`EngineBuilder::root`] for the settings that need trust.
    pub fn for_root(root: &Root) -> Result<Self, Error> {
        Self::builder().root(root)?.build()
    }

    /// Returns an engine with `config`; `root` is what its paths start from.
    pub fn new(config: Config, root: &Root) -> Result<Self, Error> {
        let mut builder = Self::builder();
        builder.inner = builder.inner.config(config).folder(root.path());
        builder.build()
    }

    /// Sets all parts of a store. Without a store, the engine assembles only
    /// requests that need none, and saves nothing.
    pub fn with_store(mut self, store: Arc<dyn Store>) -> Self {
        self.inner.set_store(Arc::clone(&store));
        self.store = Some(store);
        self
    }

    /// Sets the secret that boundary marks are derived from, in place of the
    /// store's own.
    pub fn with_mark_key(mut self, key: MarkKey) -> Self {
        self.inner.set_mark_key(key);
        self
    }

    /// Returns the store.
    ///
    /// Fails when the engine has none, or only parts of one.
    pub fn store(&self) -> Result<&dyn Store, Error> {
        match &self.store {
            Some(store) => Ok(&**store),
            // The error of the engine says what is missing, and what to do.
            None => self
                .inner
                .ledger()
                .and_then(|_| Err(Error::input("the engine has only some parts of a store"))),
        }
    }

    /// Assembles a request from the files below `root` and from the store.
    ///
    /// A history that has become too long is summarised first.
    pub fn assemble(&self, root: &Root, request: &Request) -> Result<Assembled, Error> {
        self.inner.assemble(root, request).map(Assembled)
    }

    /// Assembles a request without storing anything and without summarising
    /// history.
    pub fn preview(
        &self,
        root: &Root,
        request: &Request,
        preview: Preview,
    ) -> Result<Assembled, Error> {
        self.inner.preview(root, request, preview).map(Assembled)
    }

    /// Saves a request that was assembled without a store. Returns a warning if
    /// it could not be saved.
    pub fn keep(
        &self,
        assembled: &mut Assembled,
        now: Option<Timestamp>,
    ) -> Result<Option<Warning>, Error> {
        self.inner.keep(&mut assembled.0, now)
    }

    /// Returns the recipe of that name, or reads the file it names.
    pub fn find_recipe(&self, root: &Root, name: &str) -> Result<Arc<Recipe>, Error> {
        self.inner.recipe(root, &RecipeRef::from(name))
    }

    /// Returns the memory of the engine's store.
    ///
    /// Fails when the engine has no store.
    pub fn memory(&self) -> Result<Memory<'_>, Error> {
        Memory::new(&self.inner, &self.memory)
    }

    /// Returns the encoder that makes vectors after recording, if there is one.
    pub fn encoder(&self) -> Result<Option<Arc<dyn Embedder>>, Error> {
        Memory::encoder_of(&self.inner, &self.memory)
    }

    /// Returns the embedder that makes vectors while recording.
    pub fn embedder(&self) -> Result<Arc<dyn Embedder>, Error> {
        Memory::embedder_of(&self.inner, &self.memory)
    }

    /// Returns the archetypes: the built-in ones and the user's.
    pub fn archetypes(&self) -> Result<&Archetypes, Error> {
        Memory::archetypes_of(&self.inner, &self.memory)
    }

    fn sessions(&self) -> Sessions<'_> {
        Sessions::new(&self.inner)
    }

    fn looms(&self) -> Looms<'_> {
        Looms::new(&self.inner)
    }
}

/// Conversations.
impl Engine {
    /// Creates a session.
    ///
    /// Fails when one of that name exists, when it has a persona that does not
    /// exist below `root`, or a parent session that does not exist.
    pub fn create_session(
        &self,
        root: &Root,
        new: &NewSession,
        now: Option<Timestamp>,
    ) -> Result<Session, Error> {
        let ledger = self.ledger()?;
        if let Some(persona) = &new.persona {
            self.check_persona(root, persona)
                .map_err(|error| error.at("persona"))?;
        }
        if let Some(parent) = &new.parent_session {
            let missing = |error: StoreError| Error::from(error).at("parent_session");
            ledger.session(parent).map_err(missing)?;
        }
        Ok(ledger.create_session(new, now.unwrap_or_else(Timestamp::now))?)
    }

    /// Deletes a session with its turns and snapshots, and its event log below `root`.
    pub fn delete_session(&self, root: &Root, label: &str) -> Result<Deleted, Error> {
        let store = self.store()?;
        // Requests can name the session by an alias.
        let known = store.session(label).ok();
        let deleted = store.delete_session(label)?;
        session_files::delete_log(root, label);
        if let Some(session) = known {
            for name in session.aliases.iter().chain([&session.label]) {
                session_files::delete_log(root, name);
            }
        }
        Ok(deleted)
    }

    /// Returns the turn that a recording makes in a session: a turn in our own
    /// form unchanged, or the bodies of a provider's API with the messages that
    /// the session does not have yet.
    pub fn turn_of(&self, label: &str, recording: Recording) -> Result<NewTurn, Error> {
        self.sessions().turn_of(label, recording)
    }

    /// Records a turn: the model's answer and the messages before it.
    pub fn record(
        &self,
        label: &str,
        turn: &NewTurn,
        now: Option<Timestamp>,
    ) -> Result<Recorded, Error> {
        self.record_as(label, turn, now, TurnWrite::Now)
    }

    /// Records a turn. If it becomes memory events, it is written at once.
    pub(crate) fn record_as(
        &self,
        label: &str,
        turn: &NewTurn,
        now: Option<Timestamp>,
        write: TurnWrite<'_>,
    ) -> Result<Recorded, Error> {
        let from_sessions = self.config().memory.from_sessions;
        let remembers = |session: &Session| session.remember.unwrap_or(from_sessions);
        let write = match write {
            TurnWrite::WithRequest(session) if remembers(session) => TurnWrite::Now,
            write => write,
        };
        let (recorded, session) = self.sessions().record_in(label, turn, now, write)?;
        if remembers(&session) && !recorded.replayed {
            let memory = self.memory()?;
            memory.remember_turn(&session.label, recorded.id, &turn.messages, now);
        }
        Ok(recorded)
    }

    /// Creates a session that shares another session's history up to a turn, its
    /// head by default.
    pub fn fork(
        &self,
        label: &str,
        new: &str,
        turn: Option<&str>,
        now: Option<Timestamp>,
    ) -> Result<Session, Error> {
        self.sessions().fork(label, new, turn, now)
    }

    /// Finds the turn of a session whose id begins with `prefix`.
    pub fn find_turn(&self, session: &Session, prefix: &str) -> Result<TurnId, Error> {
        self.sessions().find_turn(session, prefix)
    }

    /// Returns the number of turns of a session that are stored. Turns that
    /// were deleted are not among them.
    pub fn stored_turns(&self, label: &str) -> Result<u64, Error> {
        self.sessions().stored_turns(label)
    }

    /// Returns the latest `limit` turns of a session, oldest first, and the
    /// compactions among them.
    pub fn history(&self, label: &str, limit: usize) -> Result<Vec<Turn>, Error> {
        self.sessions().history(label, limit)
    }

    /// Returns the latest `limit` turns before the turn `before`, oldest first,
    /// and the compactions among them. Without `before`, the latest turns of the
    /// session.
    pub fn history_before(
        &self,
        label: &str,
        before: Option<TurnId>,
        limit: usize,
    ) -> Result<Vec<Turn>, Error> {
        self.sessions().history_before(label, before, limit)
    }

    /// Summarises all but the latest turns of a session. Returns `None` when
    /// there is nothing to summarise.
    pub fn compact(&self, label: &str, request: &CompactRequest) -> Result<Attempt, Error> {
        self.sessions().compact(label, request)
    }

    /// Summarises a session's history if the next request is likely to need it,
    /// so that the request need not wait for the summary.
    pub fn compact_ahead(&self, label: &str, now: Option<Timestamp>) -> Result<Attempt, Error> {
        self.sessions().compact_ahead(label, now)
    }

    /// Summarises a session's history further than usual, because the provider
    /// rejected the request as too long.
    pub fn recover_overflow(
        &self,
        label: &str,
        request: &CompactRequest,
    ) -> Result<Compacted, Error> {
        self.sessions().recover_overflow(label, request)
    }

    /// Returns a part of a tool result, by the handle that the marker of a cut
    /// names.
    pub fn fetch(&self, handle: &str, request: &FetchRequest) -> Result<Fetched, Error> {
        self.sessions().fetch(handle, request)
    }

    /// Pins a text, or the text of a turn, to a session: every request contains
    /// it verbatim.
    pub fn pin(
        &self,
        label: &str,
        request: &PinRequest,
        now: Option<Timestamp>,
    ) -> Result<SessionPin, Error> {
        self.sessions().pin(label, request, now)
    }

    /// Removes a pin of a session. Its revisions stay stored.
    pub fn unpin(
        &self,
        label: &str,
        name: &str,
        now: Option<Timestamp>,
    ) -> Result<SessionPin, Error> {
        self.sessions().unpin(label, name, now)
    }

    /// Returns the pins of a session, in the order in which they are sent.
    pub fn pins(&self, label: &str) -> Result<Vec<SessionPin>, Error> {
        self.sessions().pins(label)
    }

    /// Returns every revision of a pin, oldest first.
    pub fn pin_revisions(&self, label: &str, name: &str) -> Result<Vec<SessionPin>, Error> {
        self.sessions().pin_revisions(label, name)
    }

    /// Undoes the latest compaction of a session. No turn that was recorded
    /// since is lost.
    pub fn uncompact(&self, label: &str, now: Option<Timestamp>) -> Result<Undone, Error> {
        self.sessions().uncompact(label, now)
    }

    /// Compares two saved requests, each given by its hash or the first digits:
    /// the effect on the provider's cache, the usage that the provider
    /// reported, and the blocks that differ.
    pub fn compare(&self, earlier: &str, later: &str) -> Result<Comparison, Error> {
        self.sessions().compare(earlier, later)
    }

    /// Returns the cost of a session's turns, from the usage that providers
    /// reported.
    pub fn cost(&self, label: &str) -> Result<SessionCost, Error> {
        self.sessions().cost(label)
    }
}

/// Trees.
impl Engine {
    /// Imports a tree.
    pub fn import_tree(
        &self,
        document: &TreeDocument,
        now: Option<Timestamp>,
    ) -> Result<Imported, Error> {
        self.looms().import_tree(document, now)
    }

    /// Adds a node to a tree.
    pub fn add_node(
        &self,
        tree: &str,
        new: &NewNode,
        now: Option<Timestamp>,
    ) -> Result<NodeHead, Error> {
        self.looms().add_node(tree, new, now)
    }

    /// Adds another version of a node.
    pub fn edit_node(
        &self,
        tree: &str,
        name: &str,
        edit: &NodeEdit,
        now: Option<Timestamp>,
    ) -> Result<NodeHead, Error> {
        self.looms().edit_node(tree, name, edit, now)
    }

    /// Changes flags of a node. Returns all of them.
    pub fn flag_node(&self, tree: &str, name: &str, change: FlagChange) -> Result<Flags, Error> {
        self.looms().flag_node(tree, name, change)
    }

    /// Saves a path through a tree.
    pub fn save_path(
        &self,
        tree: &str,
        name: &str,
        head: &str,
        choices: &[String],
    ) -> Result<SavedPath, Error> {
        self.looms().save_path(tree, name, head, choices)
    }

    /// Returns the nodes on the path to the node that a request names, the root
    /// first, regardless of their flags.
    pub fn tree_path(&self, request: &Request) -> Result<Vec<NodeHead>, Error> {
        self.looms().tree_path(request)
    }

    /// Returns the tokens of nodes of a tree for a model (default: the
    /// configured one), in the order of the ids.
    pub fn node_tokens(
        &self,
        tree: &str,
        mode: TreeMode,
        ids: &[&str],
        model: Option<&str>,
    ) -> Result<Vec<Tokens>, Error> {
        self.looms().node_tokens(tree, mode, ids, model)
    }
}
