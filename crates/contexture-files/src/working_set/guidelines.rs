//! Warnings when one part of the budget crowds out another.

use contexture_core::{Code, Role, Tokens};
use contexture_engine::Report;

/// The window that the typical allocations are stated for.
const TYPICAL_WINDOW: Tokens = 28_000;

/// The typical size of a component in a window of [`TYPICAL_WINDOW`].
#[derive(Clone, Copy)]
struct Typical {
    component: &'static str,
    low: Tokens,
    high: Tokens,
}

const SYSTEM: Typical = Typical {
    component: "system",
    low: 2_000,
    high: 4_000,
};
const DEVELOPER: Typical = Typical {
    component: "developer",
    low: 1_000,
    high: 2_000,
};
const CONTEXT: Typical = Typical {
    component: "context",
    low: 15_000,
    high: 20_000,
};
const RESPONSE: Typical = Typical {
    component: "reserved for response",
    low: 3_000,
    high: 4_000,
};

/// Returns a warning for each component that is outside its typical range,
/// scaled to the window, if that has a negative effect.
///
/// Instructions and the reserve are reported if they are above their range
/// while files were cut or dropped, or at more than twice their range. Files
/// are reported if they are below their range while others were cut or dropped.
/// A reserve is reported below half of its range. A short system prompt, few
/// files and an unused component are not reported.
pub fn guidelines(report: &Report, reserved_for_response: Tokens) -> Vec<String> {
    let window = report.budget.max;
    let spent = |role: Role| -> Tokens {
        let rows = report.included.iter().filter(|row| row.role == role);
        rows.map(|row| row.tokens).sum()
    };
    let is_full = [Code::OVER_BUDGET, Code::TOO_LARGE, Code::BELOW_MINIMUM];
    let is_crowded = report.included.iter().any(|row| row.code == Code::CUT)
        || report
            .excluded
            .iter()
            .any(|row| is_full.contains(&row.code));
    let scale = |tokens: Tokens| -> Tokens {
        (u128::from(tokens) * u128::from(window) / u128::from(TYPICAL_WINDOW)) as Tokens
    };
    let above = |used: Tokens, typical: Typical| {
        let high = scale(typical.high);
        used > high && is_crowded || used > 2 * high
    };
    let rows = [
        (SYSTEM, spent(Role::System)),
        (DEVELOPER, spent(Role::Developer)),
        (CONTEXT, spent(Role::Context)),
        (RESPONSE, reserved_for_response),
    ];
    rows.into_iter()
        .filter_map(|(typical, used)| {
            let low = scale(typical.low);
            let side = match typical.component {
                _ if used == 0 => return None,
                "context" if used < low && is_crowded => "below",
                "reserved for response" if used < low / 2 => "below",
                component if component != "context" && above(used, typical) => "above",
                _ => return None,
            };
            let (component, high) = (typical.component, scale(typical.high));
            Some(format!(
                "guideline: {component}: {used} tokens, {side} the typical {low}-{high} \
                 for a window of {window}"
            ))
        })
        .collect()
}
