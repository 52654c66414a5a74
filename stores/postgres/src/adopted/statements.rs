//! The statements for one table, made from the templates in `sql/adopted`.

use std::collections::HashMap;

use windlass_core::id::StepName;
use windlass_core::transition::LEASE_RAN_OUT;

use super::check::is_text;
use super::mapping::{Assign, Mapping, Output, Stage, StepColumn};
use super::moment::{self, Form};

/// What a row says that was closed because it had no try left.
const EXHAUSTED: &str = "exhausted: no try is left";

/// The statements for one table.
pub(crate) struct Statements {
    pub(crate) claim: String,
    pub(crate) again: String,
    pub(crate) find: String,
    pub(crate) renew: String,
    pub(crate) settle: String,
    pub(crate) settled: String,
    pub(crate) look: String,
    pub(crate) expire: String,
    pub(crate) exhausted: String,
    pub(crate) awaits: String,
    /// One for each step.
    pub(crate) steps: HashMap<StepName, StepStatement>,
    /// Without a table for it a cool-down is refused.
    pub(crate) cool_down: Option<String>,
}

/// How a step is stored.
pub(crate) struct StepStatement {
    pub(crate) sql: String,
    /// Its column is text and not JSON: a string goes in as it is.
    pub(crate) plain: bool,
}

impl Statements {
    pub(crate) fn of(mapping: &Mapping, types: &HashMap<String, String>) -> Self {
        let table = Table { mapping, types };
        let names = table.names();
        let fill = |template: &str| fill(template, &names);
        let steps = mapping.stage.iter().flat_map(|stage| stage.steps.iter().map(move |step| (stage, step)));
        let step = |(stage, step): (&Stage, &StepColumn)| {
            let template = include_str!("../../sql/adopted/store_steps.sql")
                .replace("{set}", &table.step_sets(stage, step))
                .replace("{carried}", &carried(&step.carried));
            let plain = matches!(&step.output, Output::Column(column) if table.is_text(column));
            (step.name.clone(), StepStatement { sql: fill(&template), plain })
        };
        Self {
            claim: fill(include_str!("../../sql/adopted/claim.sql")),
            again: fill(include_str!("../../sql/adopted/again.sql")),
            find: fill(include_str!("../../sql/adopted/find.sql")),
            renew: fill(include_str!("../../sql/adopted/renew.sql")),
            settle: fill(include_str!("../../sql/adopted/settle.sql")),
            settled: fill(include_str!("../../sql/adopted/settled.sql")),
            look: fill(include_str!("../../sql/adopted/look.sql")),
            expire: fill(include_str!("../../sql/adopted/expire.sql")),
            exhausted: fill(include_str!("../../sql/adopted/exhausted.sql")),
            awaits: fill(include_str!("../../sql/adopted/awaits.sql")),
            steps: steps.map(step).collect(),
            cool_down: mapping
                .cool_downs
                .is_some()
                .then(|| fill(include_str!("../../sql/adopted/cool_down.sql"))),
        }
    }
}

/// The index that makes claims fast, as SQL. Its words are those of the claim. Text that
/// no function reads cannot be in an index as a moment; then it is one that at least
/// finds the rows that are open.
pub(crate) fn claim_index(mapping: &Mapping, types: &HashMap<String, String>) -> String {
    let table = Table { mapping, types };
    let (order, id, status) = (table.order(quote), quote(&mapping.id), quote(&mapping.status));
    let reads = mapping.moments.is_some();
    match [&mapping.locked_until, &mapping.next_attempt].iter().all(|column| reads || !table.is_text(column))
    {
        true => format!(
            "CREATE INDEX ON {} ({order}, {id}, {}) WHERE {status} IN ({})",
            mapping.table,
            table.due(quote),
            table.open()
        ),
        false => format!("CREATE INDEX ON {} ({status}, {order})", mapping.table),
    }
}

/// A mapping on a table whose columns have these types.
struct Table<'a> {
    mapping: &'a Mapping,
    types: &'a HashMap<String, String>,
}

impl Table<'_> {
    fn is_text(&self, column: &str) -> bool {
        self.types.get(column).is_some_and(|found| is_text(found))
    }

    /// What stands for what in the templates.
    fn names(&self) -> Vec<(&'static str, String)> {
        let mapping = self.mapping;
        let words = &mapping.words;
        let (locked, next) = (&mapping.locked_until, &mapping.next_attempt);
        let later = |ms: &str| moment::write(&format!("{ms} * interval '1 millisecond'"), self.form(locked));
        let mut names = vec![
            ("{set_settled}", self.set_settled()),
            ("{set_expired}", assigns(&mapping.beside.failed)),
            ("{set_crash_error}", self.set_error(&literal(LEASE_RAN_OUT))),
            ("{set_exhausted_error}", self.set_error(&literal(EXHAUSTED))),
            ("{carried}", carried(&mapping.beside.carried)),
            ("{crash_error}", literal(LEASE_RAN_OUT)),
            ("{exhausted_error}", literal(EXHAUSTED)),
            ("{now}", moment::NOW.to_owned()),
            ("{table}", mapping.table.clone()),
            ("{id}", quote(&mapping.id)),
            ("{id_type}", self.types.get(&mapping.id).cloned().unwrap_or_else(|| "text".to_owned())),
            ("{status}", quote(&mapping.status)),
            ("{owner}", quote(&mapping.owner)),
            ("{tries}", quote(&mapping.tries)),
            ("{tries_before}", number(&Some(mapping.tries.clone()))),
            ("{open}", self.open()),
            ("{ready}", literals(&words.ready)),
            ("{running}", literal(&words.running)),
            ("{failed}", literal(&words.failed)),
            ("{retry}", literal(&words.retry)),
            ("{due}", self.due(of)),
            ("{next_attempt_column}", quote(next)),
            ("{next_at}", moment::write("m.next_at", self.form(next))),
            ("{locked_until}", self.moment(locked)),
            ("{lease_ms}", mapping.lease_ms.to_string()),
            ("{lock_us}", micros(&self.moment(locked))),
            ("{locked_until_column}", quote(locked)),
            ("{lock_end}", later("moment.now + $5::bigint")),
            ("{new_lock}", moment::write("m.until", self.form(locked))),
            ("{order}", format!("{}, {}", self.order(of), of(&mapping.id))),
            ("{order_text}", self.order_text()),
            ("{predicate}", mapping.predicate.clone().unwrap_or_else(|| "true".to_owned())),
            ("{payload}", payload(mapping)),
            ("{stage}", mapping.stage.as_ref().map_or("NULL".to_owned(), |stage| of(&stage.column))),
            ("{outputs}", outputs(mapping.stage.as_ref())),
        ];
        names.extend(super::fence::names(mapping));
        names.extend(self.retry_names());
        names.extend(self.crash_names());
        names.extend(self.cool_down_names());
        names
    }

    /// A column of time as a moment.
    fn moment(&self, column: &str) -> String {
        self.moment_of(column, of)
    }

    /// The same, for a column that is written so.
    fn moment_of(&self, column: &str, spell: fn(&str) -> String) -> String {
        let function = self.mapping.moments.as_ref().map(|moments| moments.function.as_str());
        moment::read(&spell(column), self.form(column), function)
    }

    fn form(&self, column: &str) -> Form {
        Form::of(self.types.get(column).map(String::as_str))
    }

    /// From when on a row may be claimed.
    fn due(&self, spell: fn(&str) -> String) -> String {
        let Mapping { status, words, locked_until, next_attempt, .. } = self.mapping;
        format!(
            "coalesce(CASE WHEN {} = {} THEN {} ELSE {} END, '-infinity'::timestamptz)",
            spell(status),
            literal(&words.running),
            self.moment_of(locked_until, spell),
            self.moment_of(next_attempt, spell),
        )
    }

    /// What rows are ordered by. A row without a moment would wait for ever behind
    /// those that keep coming, so it goes first.
    fn order(&self, spell: fn(&str) -> String) -> String {
        let column = self.mapping.order.as_ref().unwrap_or(&self.mapping.id);
        match self.orders_by_moment() {
            true => format!("{} NULLS FIRST", self.moment_of(column, spell)),
            false => spell(column),
        }
    }

    /// The same, as a number or a text.
    fn order_text(&self) -> String {
        let column = self.mapping.order.as_ref().unwrap_or(&self.mapping.id);
        match self.orders_by_moment() {
            true => format!("(extract(epoch FROM {}) * 1000000)::bigint", self.moment(column)),
            false => of(column),
        }
    }

    fn orders_by_moment(&self) -> bool {
        self.mapping.moments.as_ref().is_some_and(|moments| moments.in_order)
    }

    fn open(&self) -> String {
        literals(self.mapping.words.ready.iter().chain([&self.mapping.words.running]))
    }

    /// When a row is tried again, as `RetryRule::delay_ms` says it, and whether it is not any more: by the tries that the row counts.
    fn retry_names(&self) -> [(&'static str, String); 2] {
        let Mapping { tries, tries_max, ladder, .. } = self.mapping;
        let (tries, rungs) = (number(&Some(tries.clone())), ladder.rungs());
        let delays: Vec<String> = rungs.iter().map(|rung| rung.ms().to_string()).collect();
        let retry_ms = match rungs.len() {
            0 => "NULL::bigint".to_owned(),
            last => format!(
                "(CASE WHEN {tries} < {tries_max} THEN (ARRAY[{}]::bigint[])[least(greatest({tries}, 1), {last})] END)",
                delays.join(", ")
            ),
        };
        let is_spent = format!("(a.outcome = 'retry' AND {retry_ms} IS NULL)");
        [("{retry_ms}", retry_ms), ("{is_spent}", is_spent)]
    }

    fn crash_names(&self) -> [(&'static str, String); 3] {
        let Mapping { crashes: column, crashes_max, status, words, .. } = self.mapping;
        let crashes = number(column);
        let left = format!(
            "(CASE WHEN {} = {} THEN {crashes} + 1 < {crashes_max} ELSE true END)",
            of(status),
            literal(&words.running),
        );
        let add = |column: &String| format!(", {} = {crashes} + 1", quote(column));
        [
            ("{crashes_left}", left),
            ("{add_crash}", column.as_ref().map_or(String::new(), add)),
            ("{crashes}", crashes),
        ]
    }

    fn cool_down_names(&self) -> [(&'static str, String); 2] {
        let Some(cool) = &self.mapping.cool_downs else {
            return [("{warm}", String::new()), ("{cool_downs}", String::new())];
        };
        let budgets: Vec<String> = cool.budgets.iter().map(ToString::to_string).collect();
        let warm = format!(
            " WHERE NOT EXISTS (SELECT FROM {} c WHERE c.name IN ({}) AND c.until > m.now)",
            cool.table,
            literals(&budgets),
        );
        [("{warm}", warm), ("{cool_downs}", cool.table.clone())]
    }

    fn set_error(&self, text: &str) -> String {
        self.mapping.error.as_ref().map_or(String::new(), |column| format!(", {} = {text}", quote(column)))
    }

    /// What an end sets beside status, owner, times and tries.
    fn set_settled(&self) -> String {
        let Mapping { error, beside, .. } = self.mapping;
        let mut set = error.as_ref().map_or(String::new(), |column| {
            let (column, old) = (quote(column), of(column));
            format!(
                ", {column} = CASE WHEN m.outcome = 'completed' THEN NULL ELSE coalesce(m.error, {old}) END"
            )
        });
        let mut columns: Vec<&str> = Vec::new();
        for assign in beside.done.iter().chain(&beside.failed) {
            if !columns.contains(&assign.column.as_str()) {
                columns.push(&assign.column);
            }
        }
        for column in columns {
            let value = |list: &[Assign], outcomes: &str| {
                let found = list.iter().find(|assign| assign.column == column);
                found.map_or(String::new(), |assign| {
                    format!(" WHEN m.outcome {outcomes} THEN {}", assign.value)
                })
            };
            set.push_str(&format!(
                ", {} = CASE{}{} ELSE {} END",
                quote(column),
                value(&beside.done, "= 'completed'"),
                value(&beside.failed, "IN ('retry', 'failed')"),
                of(column),
            ));
        }
        set
    }

    /// What the write of a step sets.
    fn step_sets(&self, stage: &Stage, step: &StepColumn) -> String {
        let later = stage.steps.iter().skip_while(|other| other.name != step.name).skip(1);
        let later: Vec<String> = later.map(|step| step.word.clone()).collect();
        let (column, word) = (quote(&stage.column), literal(&step.word));
        let mut set = match later.is_empty() {
            true => format!("{column} = {word}"),
            false => format!(
                "{column} = CASE WHEN t.{column} IN ({}) THEN t.{column} ELSE {word} END",
                literals(&later)
            ),
        };
        if let Some(crashes) = &self.mapping.crashes {
            // A step that the row has already is no progress.
            let mut had = format!("t.{column} IN ({})", literals(&[vec![step.word.clone()], later].concat()));
            if let Output::Fields(fields) = &step.output
                && let Some((_, proof)) = fields.first()
            {
                had.push_str(&format!(" AND {} IS NOT NULL", of(proof)));
            }
            let crashes = quote(crashes);
            set.push_str(&format!(", {crashes} = CASE WHEN {had} THEN t.{crashes} ELSE 0 END"));
        }
        match &step.output {
            Output::None => {}
            Output::Column(column) => {
                let cast = if self.is_text(column) { "" } else { "::json" };
                set.push_str(&format!(", {} = m.output{cast}", quote(column)));
            }
            Output::Fields(fields) => {
                let parts = fields.iter().map(|(key, column)| {
                    format!(", {} = coalesce({}, {})", quote(column), self.part(key, column), of(column))
                });
                set.extend(parts);
            }
        }
        set
    }

    /// A part of an output, in the type of its column.
    fn part(&self, key: &str, column: &str) -> String {
        let key = literal(key);
        match self.types.get(column).map(String::as_str) {
            Some(json @ ("json" | "jsonb")) => {
                format!("nullif(m.output::jsonb -> {key}, 'null'::jsonb)::{json}")
            }
            Some(other) if !is_text(other) => format!("(m.output::jsonb ->> {key})::{other}"),
            _ => format!("m.output::jsonb ->> {key}"),
        }
    }
}

fn fill(template: &str, names: &[(&'static str, String)]) -> String {
    names.iter().fold(template.to_owned(), |sql, (name, value)| sql.replace(name, value))
}

/// A moment as a number that can be compared with itself later; 0 for none.
fn micros(moment: &str) -> String {
    format!("(CASE WHEN isfinite({moment}) THEN (extract(epoch FROM {moment}) * 1000000)::bigint ELSE 0 END)")
}

/// Statements that go with another, in one.
fn carried(statements: &[String]) -> String {
    let part = |(n, sql): (usize, &String)| format!(",\ncarried_{n} AS ({sql})");
    statements.iter().enumerate().map(part).collect()
}

fn assigns(list: &[Assign]) -> String {
    list.iter().map(|assign| format!(", {} = {}", quote(&assign.column), assign.value)).collect()
}

pub(super) fn number(column: &Option<String>) -> String {
    // Somebody else may have written anything; a count below nothing is none.
    column.as_ref().map_or("0".to_owned(), |column| format!("greatest(coalesce({}, 0), 0)", of(column)))
}

fn payload(mapping: &Mapping) -> String {
    let pairs = mapping.payload.iter().map(|column| format!("{}, {}", literal(column), of(column)));
    format!("json_build_object({})", pairs.collect::<Vec<_>>().join(", "))
}

fn outputs(stage: Option<&Stage>) -> String {
    let steps = stage.map(|stage| stage.steps.as_slice()).unwrap_or_default();
    let output = |step: &StepColumn| match &step.output {
        Output::None => "NULL".to_owned(),
        Output::Column(column) => format!("{}::text", of(column)),
        Output::Fields(fields) => {
            let pairs = fields.iter().map(|(key, column)| format!("{}, {}", literal(key), of(column)));
            let pairs = pairs.collect::<Vec<_>>().join(", ");
            let proof = fields.first().map_or(String::new(), |(_, column)| of(column));
            format!("CASE WHEN {proof} IS NOT NULL THEN json_build_object({pairs})::text END")
        }
    };
    format!("ARRAY[{}]", steps.iter().map(output).collect::<Vec<_>>().join(", "))
}

/// A column of the row `t`.
pub(super) fn of(column: &str) -> String {
    format!("t.{}", quote(column))
}

/// A name as SQL.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn literals<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    texts.into_iter().map(|text| literal(text)).collect::<Vec<_>>().join(", ")
}
