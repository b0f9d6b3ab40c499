//! Combines many runs of one statement, each with its own values, into one
//! statement.
//!
//! The values of each parameter become an array. The fixed cost of a statement
//! is then paid once: a message, its plan, and locks on its tables.
//! PostgreSQL copies each array row by row, so that a parameter without values is
//! written as NULL.

use contexture_sql::{Question, SqlType, Value};

use crate::encode::{Argument, array_of, kind_of};

/// Returns the types of the parameters, if all rows have the same types and at
/// least one parameter.
fn kinds_of<'r, 'v: 'r>(mut rows: impl Iterator<Item = &'r [Value<'v>]>) -> Option<Vec<SqlType>> {
    let first: Vec<SqlType> = rows.next()?.iter().map(kind_of).collect();
    let same = |row: &[Value<'_>]| row.iter().map(kind_of).eq(first.iter().copied());
    (!first.is_empty() && rows.all(same)).then_some(first)
}

/// A parameter, and the values that it has in all rows.
struct Column<'r> {
    /// Its number in the statement of one row.
    number: usize,
    kind: SqlType,
    values: Vec<&'r Value<'r>>,
}

/// Returns the parameters.
fn columns<'r, 'v: 'r>(
    rows: impl Iterator<Item = &'r [Value<'v>]> + Clone,
) -> Option<Vec<Column<'r>>> {
    let kinds = kinds_of(rows.clone())?;
    let column = |(at, kind): (usize, SqlType)| Column {
        number: at + 1,
        kind,
        values: rows.clone().map(|row| &row[at]).collect(),
    };
    Some(kinds.into_iter().enumerate().map(column).collect())
}

/// Returns the arrays as an SQL table, and the names of its columns.
fn table(columns: &[Column<'_>]) -> (String, String) {
    let arrays = columns.iter().enumerate();
    let arrays = arrays.map(|(at, column)| format!("${}::{}", at + 1, array_of(column.kind)));
    let names = columns.iter().map(|column| format!("p{}", column.number));
    let (arrays, names): (Vec<_>, Vec<_>) = (arrays.collect(), names.collect());
    (format!("unnest({})", arrays.join(", ")), names.join(", "))
}

fn arguments(columns: Vec<Column<'_>>) -> Vec<Argument<'_>> {
    let columns = columns.into_iter();
    columns
        .map(|column| Argument::Many(column.kind, column.values))
        .collect()
}

/// Returns a query for many rows of values. The first column of its result is
/// the number of the row, from 1. Returns `None` when the queries must be sent
/// one by one.
pub(crate) fn query<'r, 'v: 'r>(
    sql: &str,
    rows: impl Iterator<Item = &'r [Value<'v>]> + Clone,
) -> Option<(String, Vec<Argument<'r>>)> {
    if !sql.trim_start().starts_with("SELECT") || sql.contains("OFFSET") {
        return None;
    }
    let columns = columns(rows)?;
    let (arrays, names) = table(&columns);
    let sql = sql.replace('?', "q.p");
    // The OFFSET makes PostgreSQL run the query for each row, in its own order.
    let sql = format!(
        "SELECT q.number, r.* FROM {arrays} WITH ORDINALITY AS q ({names}, number), \
         LATERAL ({sql} OFFSET 0) AS r"
    );
    Some((sql, arguments(columns)))
}

/// Returns a statement that fails unless each query returns a row.
///
/// The values are not arrays: PostgreSQL would plan the statement again for each length of
/// an array.
pub(crate) fn requirement(queries: &[Question]) -> (String, Vec<Argument<'_>>) {
    let mut found = Vec::new();
    let mut arguments = Vec::new();
    for Question { sql, values } in queries {
        let mut parts = sql.split('?');
        let mut own = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (number, rest) = number_and_rest(part);
            own += &format!("${}{rest}", number + arguments.len());
        }
        found.push(format!("EXISTS ({own})"));
        arguments.extend(values.iter().map(Argument::One));
    }
    // A division by zero is the shortest statement that fails.
    let found = found.join(" AND ");
    let sql = format!("SELECT 1 / (CASE WHEN {found} THEN 1 ELSE 0 END)");
    (sql, arguments)
}

/// Returns a statement that inserts or updates many rows. Returns `None` unless
/// it has the form `INSERT INTO … VALUES (…)` or `UPDATE … SET … WHERE …`.
pub(crate) fn change<'r, 'v: 'r>(
    sql: &str,
    rows: impl Iterator<Item = &'r [Value<'v>]> + Clone,
) -> Option<(String, Vec<Argument<'r>>)> {
    let is_null = |column: &Column<'_>| {
        let mut values = column.values.iter();
        values.all(|value| matches!(value, Value::Null(_)))
    };
    let (empty, columns): (Vec<_>, Vec<_>) = columns(rows)?.into_iter().partition(is_null);
    if columns.is_empty() {
        return None;
    }
    let (arrays, names) = table(&columns);
    let own = |sql: &str| own(sql, &empty);
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
    Some((sql, arguments(columns)))
}

/// Returns SQL with columns of the table, and NULL for parameters without values.
fn own(sql: &str, empty: &[Column<'_>]) -> String {
    let mut parts = sql.split('?');
    let mut own = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = number_and_rest(part);
        match empty.iter().find(|column| column.number == number) {
            Some(column) => {
                let kind = array_of(column.kind).trim_end_matches("[]");
                own += &format!("NULL::{kind}");
            }
            None => own += &format!("q.p{number}"),
        }
        own += rest;
    }
    own
}

/// Splits the SQL after a `?` into the number of the parameter and the rest.
fn number_and_rest(part: &str) -> (usize, &str) {
    let end = part.find(|char: char| !char.is_ascii_digit());
    let (number, rest) = part.split_at(end.unwrap_or(part.len()));
    (number.parse().unwrap_or_default(), rest)
}

/// Returns the offset of the closing parenthesis for one that is open.
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
    fn a_requirement_is_one_statement_for_all_queries() {
        let queries = [
            Question {
                sql: "SELECT 1 FROM t WHERE a = ?1 AND b = ?2".to_owned(),
                values: rows().remove(0),
            },
            Question {
                sql: "SELECT 1 FROM u WHERE c = ?1 LIMIT 1".to_owned(),
                values: vec![Value::Integer(7)],
            },
        ];
        let (sql, arguments) = requirement(&queries);
        assert_eq!(
            sql,
            "SELECT 1 / (CASE WHEN EXISTS (SELECT 1 FROM t WHERE a = $1 AND b = $2) AND \
             EXISTS (SELECT 1 FROM u WHERE c = $3 LIMIT 1) THEN 1 ELSE 0 END)"
        );
        assert_eq!(arguments.len(), 3);
    }

    #[test]
    fn a_parameter_without_values_is_no_array() {
        let null = || Value::Null(SqlType::Blob);
        let rows = [
            vec![null(), Value::Integer(1), Value::Null(SqlType::Text)],
            vec![null(), Value::Integer(2), Value::Text("a".into())],
        ];
        let rows = rows.iter().map(Vec::as_slice);
        let sql = "INSERT INTO t (a, b, c, d) VALUES (?1, ?2, ?3, ?11)";
        let (sql, arguments) = change(sql, rows).unwrap();
        assert_eq!(
            sql,
            "INSERT INTO t (a, b, c, d) SELECT NULL::bytea, q.p2, q.p3, q.p11 \
             FROM unnest($1::int8[], $2::text[]) AS q (p2, p3)"
        );
        assert_eq!(arguments.len(), 2);
        let empty = [vec![null()], vec![null()]];
        let rows = empty.iter().map(Vec::as_slice);
        assert!(change("INSERT INTO t (a) VALUES (?1)", rows).is_none());
    }

    #[test]
    fn statements_of_another_form_are_not_merged() {
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
