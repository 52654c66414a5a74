//! A row as Agenda's own `now` and `schedule` would write it.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use sha2::{Digest, Sha256};

/// A row that is yet to be written. Every version of Agenda runs what [`NewRow::document`] gives.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRow {
    /// Its id. Agenda 6 runs rows with ids of this type alone; [`row_id`] makes one that is always the same.
    pub id: ObjectId,
    /// The name of the job, as Node defines it.
    pub name: String,
    /// What the job gets.
    pub data: Bson,
    /// Higher first: Agenda's own words are -20, -10, 0, 10 and 20.
    pub priority: i32,
    /// When it is due. It comes from the server's clock: Agenda compares it with its own.
    pub next_run_at: DateTime,
    /// Who wrote it.
    pub last_modified_by: String,
}

impl NewRow {
    /// The row, with the types that Agenda itself writes: with any other type of `nextRunAt` a row never runs, and
    /// nobody says so.
    pub fn document(&self) -> Document {
        self.clone().into_document()
    }

    /// The same, without a copy of its data.
    pub fn into_document(self) -> Document {
        let Self { id, name, data, priority, next_run_at, last_modified_by } = self;
        doc! {
            "_id": id,
            "name": name,
            "data": data,
            "type": "normal",
            "priority": priority,
            "nextRunAt": next_run_at,
            "lastModifiedBy": last_modified_by,
        }
    }
}

/// An id that is computed from what the row stands for, so that writing it again meets the row that is there
/// (a duplicate key, 11000): the first 12 bytes of a SHA-256 over the parts, each after its length.
pub fn row_id(parts: &[&[u8]]) -> ObjectId {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let mut id = [0; 12];
    id.copy_from_slice(&digest[..12]);
    ObjectId::from_bytes(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_of_its_parts_and_their_borders() {
        let id = row_id(&[b"listener", b"token"]);
        assert_eq!(id, row_id(&[b"listener", b"token"]));
        // It is stored: another version of this program must compute the same.
        assert_eq!(id.to_hex(), "fbb42ca5efeae53850b74906");
        for other in
            [row_id(&[b"listenert", b"oken"]), row_id(&[b"listenertoken"]), row_id(&[b"token", b"listener"])]
        {
            assert_ne!(id, other);
        }
    }

    #[test]
    fn a_row_has_the_types_of_agenda() {
        let row = NewRow {
            id: row_id(&[b"x"]),
            name: "mail".to_owned(),
            data: Bson::Document(doc! { "n": 1 }),
            priority: 10,
            next_run_at: DateTime::from_millis(1_700_000_000_000),
            last_modified_by: "windlass".to_owned(),
        };
        let document = row.document();
        let types: Vec<String> =
            document.iter().map(|(key, value)| format!("{key}: {:?}", value.element_type())).collect();
        assert_eq!(
            types,
            [
                "_id: ObjectId",
                "name: String",
                "data: EmbeddedDocument",
                "type: String",
                "priority: Int32",
                "nextRunAt: DateTime",
                "lastModifiedBy: String",
            ]
        );
    }
}
