//! Warnings when a part of the budget is far from its typical size.

use contexture_core::{Role, Tokens};
use contexture_engine::Report;

/// The window that the typical allocations are stated for.
const TYPICAL_WINDOW: Tokens = 28_000;

/// Component, and its typical range in a window of [`TYPICAL_WINDOW`].
const TYPICAL: [(&str, Tokens, Tokens); 4] = [
    ("system", 2_000, 4_000),
    ("developer", 1_000, 2_000),
    ("context", 15_000, 20_000),
    ("reserved for response", 3_000, 4_000),
];

/// Returns a warning for each component that is outside its typical range,
/// scaled to the window. A component that is not used at all gets none.
pub fn guidelines(report: &Report, reserved_for_response: Tokens) -> Vec<String> {
    let window = report.budget.max;
    let spent = |role: Role| -> Tokens {
        let rows = report.included.iter().filter(|row| row.role == role);
        rows.map(|row| row.tokens).sum()
    };
    TYPICAL
        .iter()
        .filter_map(|(component, low, high)| {
            let scale = |tokens: Tokens| -> Tokens {
                (u128::from(tokens) * u128::from(window) / u128::from(TYPICAL_WINDOW)) as Tokens
            };
            let (low, high) = (scale(*low), scale(*high));
            let used = match *component {
                "system" => spent(Role::System),
                "developer" => spent(Role::Developer),
                "context" => spent(Role::Context),
                _ => reserved_for_response,
            };
            if used == 0 || (low..=high).contains(&used) {
                return None;
            }
            let side = if used < low { "below" } else { "above" };
            Some(format!(
                "guideline: {component}: {used} tokens, {side} the typical {low}-{high} \
                 for a window of {window}"
            ))
        })
        .collect()
}
