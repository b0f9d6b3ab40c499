//! `contexture models`: lists models, and replaces the model table.

use std::path::Path;

use contexture::config::MODEL_TABLE;
use contexture::core::grouped;
use contexture::tokens::{ListedModel, Model, ModelList, ModelTable};
use contexture::{Engine, Root, Timestamp};
use serde_json::json;

use crate::args::{ModelsArgs, ModelsCommand};
use crate::output::{self, Usage};
use crate::session::{plain, table};

pub(crate) fn run(args: &ModelsArgs) -> anyhow::Result<()> {
    match &args.command {
        ModelsCommand::List { filter, json } => list(filter.as_deref(), &args.root, *json),
        ModelsCommand::Update { file, date } => update(file, date.as_deref(), &args.root),
    }
}

fn list(filter: Option<&str>, root: &Path, as_json: bool) -> anyhow::Result<()> {
    let root = Root::open(root)?;
    let engine = Engine::for_root(&root)?;
    if let Some(warning) = engine.table_warning() {
        output::warn(warning);
    }
    let models = engine.models();
    let wanted = filter.unwrap_or_default().to_ascii_lowercase();
    let matches = |model: &Model| {
        let fields = [&model.name, &model.family, model.provider.name()];
        fields
            .iter()
            .any(|field| field.to_ascii_lowercase().contains(&wanted))
    };
    let mut found: Vec<Model> = models.list().filter(matches).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    if found.is_empty() {
        return Err(Usage(format!("no model contains `{}`", output::visible(&wanted))).into());
    }
    let (date, source) = (models.table().date(), models.table().source());
    if as_json {
        let list = ModelList {
            date: date.to_owned(),
            source: source.to_owned(),
            models: found.iter().map(ListedModel::of).collect(),
        };
        return output::text(&format!("{:#}\n", json!(list)));
    }
    let header = [
        "model",
        "provider",
        "window",
        "output",
        "$ input",
        "$ output",
        "$ cached",
        "$ written",
    ];
    let mut rows = table(&header, &[2, 3, 4, 5, 6, 7]);
    for model in &found {
        let price = |of: fn(&contexture::tokens::Prices) -> f64| {
            let price = model.prices.as_ref().map(of);
            price.map_or_else(String::new, |price| price.to_string())
        };
        rows.add_row([
            output::visible(&model.name),
            model.provider.name().to_owned(),
            grouped(model.window),
            model.max_output.map_or_else(String::new, grouped),
            price(|prices| prices.input),
            price(|prices| prices.output),
            price(|prices| prices.cached_input),
            price(|prices| prices.cache_write),
        ]);
    }
    output::text(&plain(&rows))?;
    let count = output::many(found.len() as u64, "model");
    output::say(&format!("{count}; table of {date} from {source}"));
    Ok(())
}

fn update(file: &Path, date: Option<&str>, root: &Path) -> anyhow::Result<()> {
    let root = Root::open(root)?;
    let text = output::read(file)?;
    let name = output::name(file);
    let changed = std::fs::metadata(file).and_then(|found| found.modified());
    let changed = changed.ok().and_then(|time| Timestamp::try_from(time).ok());
    let day: String = match date {
        Some(date) => date.to_owned(),
        None => {
            let changed = changed.unwrap_or_else(Timestamp::now).to_string();
            changed.chars().take(10).collect()
        }
    };
    let source = file.file_name().map_or_else(
        || "standard input".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    let source = match source.as_str() {
        "-" => "standard input",
        source => source,
    };
    let table = ModelTable::import(&text, &day, source)
        .map_err(|error| Usage(format!("{name}: {error}; the model table was not changed")))?;
    root.create_dir_of(MODEL_TABLE)?;
    // A folder that was there before has its own.
    let _ = root.write_new(".contexture/.gitignore", "*\n");
    root.replace(MODEL_TABLE, table.text())?;
    let models = output::many(table.rows().count() as u64, "model");
    output::text(&format!(
        "wrote {}: {models} of {}\n",
        root.path().join(MODEL_TABLE).display(),
        table.date()
    ))
}
