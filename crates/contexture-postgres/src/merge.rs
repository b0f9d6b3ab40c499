//! A statement that runs once for each of many rows of values, as one statement.
//!
//! The values of each parameter become an array. What a statement costs apart from
//! its rows is then paid once: a message, its plan, and locks on its tables.

use contexture_sql::{SqlType, Value};

use crate::encode::{Argument, array_of, kind_of};

/// The types of the parameters, if they are the same in all rows and there are some.
fn kinds_of<'r, 'v: 'r>(mut rows: impl Iterator<Item = &'r [Value<'v>]>) -> Option<Vec<SqlType>> {
    let first: Vec<SqlType> = rows.next()?.iter().map(kind_of).collect();
    let same = |row: &[Value<'_>]| row.iter().map(kind_of).eq(first.iter().copied());
    (!first.is_empty() && rows.all(same)).then_some(first)
}

/// Returns the values of each parameter.
fn columns<'r, 'v: 'r>(
    kinds: &[SqlType],
    rows: impl Iterator<Item = &'r [Value<'v>]> + Clone,
) -> Vec<Argument<'r>> {
    let column = |(at, kind): (usize, &SqlType)| {
        Argument::Many(*kind, rows.clone().map(|row| &row[at]).collect())
    };
    kinds.iter().enumerate().map(column).collect()
}

/// Returns the arrays as a table, and the names of its columns.
fn table(kinds: &[SqlType]) -> (String, String) {
    let arrays = kinds.iter().enumerate();
    let arrays = arrays.map(|(at, kind)| format!("${}::{}", at + 1, array_of(*kind)));
    let names = (1..=kinds.len()).map(|at| format!("p{at}"));
    let (arrays, names): (Vec<_>, Vec<_>) = (arrays.collect(), names.collect());
    (format!("unnest({})", arrays.join(", ")), names.join(", "))
}

/// Returns a query for many rows of values. The first column of its result is the
/// number of the row, from 1 on. `None` when the queries have to be sent one by one.
pub(crate) fn query<'r, 'v: 'r>(
    sql: &str,
    rows: impl Iterator<Item = &'r [Value<'v>]> + Clone,
) -> Option<(String, Vec<Argument<'r>>)> {
    if !sql.trim_start().starts_with("SELECT") || sql.contains("OFFSET") {
        return None;
    }
    let kinds = kinds_of(rows.clone())?;
    let (arrays, names) = table(&kinds);
    let sql = sql.replace('?', "q.p");
    // The offset has the query run for each row, in its own order.
    let sql = format!(
        "SELECT q.number, r.* FROM {arrays} WITH ORDINALITY AS q ({names}, number), \
         LATERAL ({sql} OFFSET 0) AS r"
    );
    Some((sql, columns(&kinds, rows)))
}

/// Returns a statement that inserts or updates many rows. `None` when it has another
/// form than `INSERT INTO … VALUES (…)` or `UPDATE … SET … WHERE …`.
pub(crate) fn change<'r, 'v: 'r>(
    sql: &str,
    rows: impl Iterator<Item = &'r [Value<'v>]> + Clone,
) -> Option<(String, Vec<Argument<'r>>)> {
    let kinds = kinds_of(rows.clone())?;
    let (arrays, names) = table(&kinds);
    let own = |sql: &str| sql.replace('?', "q.p");
    let start = sql.trim_start();
    let sql = if start.starts_with("INSERT") {
        let (into, values) = sql.split_once("VALUES (")?;
        let end = closing(values)?;
        let (values, rest) = (&values[..end], &values[end + 1..]);
        if rest.contains('?') {
            return None;
        }
        format!(
            "{into}SELECT {} FROM {arrays} AS q ({names}){rest}",
            own(values)
        )
    } else if start.starts_with("UPDATE") {
        let at = sql.rfind("WHERE")?;
        let (set, condition) = (own(&sql[..at]), own(&sql[at..]));
        format!("{set}FROM {arrays} AS q ({names}) {condition}")
    } else {
        return None;
    };
    Some((sql, columns(&kinds, rows)))
}

/// Returns where the parenthesis is closed that was opened before.
fn closing(sql: &str) -> Option<usize> {
    let mut open = 1;
    sql.bytes().position(|byte| {
        open += match byte {
            b'(' => 1,
            b')' => -1,
            _ => 0,
        };
        open == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<Value<'static>>> {
        vec![
            vec![Value::Integer(1), Value::Text("a".into())],
            vec![Value::Integer(2), Value::Null(SqlType::Text)],
        ]
    }

    fn merged(
        merge: impl Fn(&str, std::slice::Iter<'_, Vec<Value<'static>>>) -> Option<String>,
        sql: &str,
    ) -> Option<String> {
        merge(sql, rows().iter())
    }

    fn changed(sql: &str) -> Option<String> {
        merged(
            |sql, rows| Some(change(sql, rows.map(Vec::as_slice))?.0),
            sql,
        )
    }

    #[test]
    fn rows_become_arrays() {
        assert_eq!(
            changed("INSERT INTO t (a, b, c) VALUES (?1, lower(?2), 'x') ON CONFLICT DO NOTHING")
                .unwrap(),
            "INSERT INTO t (a, b, c) SELECT q.p1, lower(q.p2), 'x' \
             FROM unnest($1::int8[], $2::text[]) AS q (p1, p2) ON CONFLICT DO NOTHING"
        );
        assert_eq!(
            changed("UPDATE t SET b = ?2 WHERE a = ?1").unwrap(),
            "UPDATE t SET b = q.p2 FROM unnest($1::int8[], $2::text[]) AS q (p1, p2) \
             WHERE a = q.p1"
        );
        let asked = merged(
            |sql, rows| Some(query(sql, rows.map(Vec::as_slice))?.0),
            "SELECT b FROM t WHERE a = ?1 AND b < ?2",
        );
        assert_eq!(
            asked.unwrap(),
            "SELECT q.number, r.* FROM unnest($1::int8[], $2::text[]) WITH ORDINALITY \
             AS q (p1, p2, number), LATERAL (SELECT b FROM t WHERE a = q.p1 AND b < q.p2 \
             OFFSET 0) AS r"
        );
    }

    #[test]
    fn what_has_another_form_is_not_merged() {
        for sql in [
            "DELETE FROM t WHERE a = ?1 AND b = ?2",
            "INSERT INTO t (a, b) SELECT ?1, ?2",
            "INSERT INTO t (a, b) VALUES (?1, ?2) ON CONFLICT (a) DO UPDATE SET b = ?2",
        ] {
            assert_eq!(changed(sql), None, "{sql}");
        }
        let mixed = [vec![Value::Integer(1)], vec![Value::Text("a".into())]];
        let rows = mixed.iter().map(Vec::as_slice);
        assert!(change("INSERT INTO t (a) VALUES (?1)", rows).is_none());
    }
}
