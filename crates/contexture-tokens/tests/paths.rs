//! Requests whose blocks meet without tags between them, counted exactly.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use contexture_core::guard::Policy;
use contexture_core::{
    Budget, Counts, Cut, Fit, Item, Join, Layer, Marker, Path, Place, Role, Text, TokenCounter,
    assemble, markup, no_loader,
};
use contexture_tokens::{Encoding, Estimated, OpenAi};
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "The",
        " quick",
        "ly",
        " brown fox",
        "\n",
        "\n\n",
        "\n\n\n",
        "\n\n\n\n\n",
        " ",
        "    ",
        "\t",
        "}\n",
        ");\n\n",
        "/",
        "//",
        "1",
        "234",
        "é",
        "世界",
        "\r\n",
        "</user>",
        "_x",
        ".",
        " \n",
        "'s",
        "http://a.b/c\n",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn check(
    role: Role,
    texts: &[String],
    window: u64,
    counter: Arc<dyn TokenCounter>,
) -> Result<(), TestCaseError> {
    let mut layer = Layer::new("path");
    layer.place = Place::History;
    layer.fit = Fit::Path(Path {
        marker: Some(Marker::new("node", role)),
        ..Path::default()
    });
    let policy = match role {
        Role::Document => Policy::default().in_document(),
        _ => Policy::default(),
    };
    for (i, raw) in texts.iter().enumerate() {
        let item = Item::new(format!("n{i}"), role, Text::guarded(raw, policy));
        layer.items.push(item.join(Join::Paragraph).cut(Cut::Start));
    }
    let counts = Counts::new(Arc::clone(&counter));
    let budget = Budget::new(window, 0, 0).unwrap();
    let assembly = assemble(vec![layer], budget, &counts, &mut no_loader).unwrap();
    let text = markup::render(&assembly.layout);
    let used = assembly.report.budget.used;
    prop_assert!(counter.count(&text) <= used, "{used} for {text:?}");
    prop_assert!(used <= window);
    if role == Role::Document && assembly.report.excluded.is_empty() {
        let cut = assembly.report.included.iter().any(|row| row.truncated);
        prop_assert!(cut || text == texts.concat(), "{text:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn counted_tokens_are_never_fewer_than_sent(
        texts in prop::collection::vec(text(), 1..12),
        window in 1..300u64,
    ) {
        for role in [Role::User, Role::Document] {
            check(role, &texts, window, Arc::new(OpenAi::new(Encoding::O200k)))?;
            check(role, &texts, window, Arc::new(OpenAi::new(Encoding::Cl100k)))?;
        }
    }

    #[test]
    fn nor_by_the_estimate(
        texts in prop::collection::vec(text(), 1..12),
        window in 1..300u64,
    ) {
        for role in [Role::User, Role::Document] {
            check(role, &texts, window, Arc::new(Estimated::new(1.0)))?;
        }
    }
}
