//! The layouts of `format` that stand alone. Decoded values must encode to bytes that decode to the same.

use format::{
    Attributes, JournalRecord, Model, Page, Reader, RecipeAttribute, RecipeRecord, Root, Settings, SnapshotEntry,
    SnapshotRecord, Writer, checksum,
};

pub fn page(bytes: &[u8]) {
    if let Ok(page) = Page::decode(bytes) {
        assert_eq!(Page::decode(&page.encode()).as_ref(), Ok(&page));
        assert!(page.entries.len() * format::ENTRY_BYTES < bytes.len());
    }
}

pub fn root(bytes: &[u8]) {
    if let Ok(root) = Root::decode(bytes) {
        assert_eq!(root.encode(), bytes);
    }
}

pub fn journal_record(bytes: &[u8]) {
    if let Ok(record) = JournalRecord::decode(bytes) {
        assert_eq!(JournalRecord::decode(&record.encode()), Ok(record));
    }
}

pub fn attributes(bytes: &[u8]) {
    if let Ok(attributes) = Attributes::decode(bytes) {
        assert_eq!(attributes.encode(), bytes);
    }
}

pub fn snapshot(bytes: &[u8]) {
    if let Ok(snapshot) = SnapshotRecord::decode(bytes) {
        assert_eq!(SnapshotRecord::decode(&snapshot.encode()), Ok(snapshot));
    }
}

pub fn recipe(bytes: &[u8]) {
    if let Ok(recipe) = RecipeRecord::decode(bytes) {
        assert_eq!(RecipeRecord::decode(&recipe.encode()), Ok(recipe));
    }
    if let Ok(attribute) = RecipeAttribute::decode(bytes) {
        assert_eq!(attribute.encode(), bytes);
    }
}

pub fn listing(bytes: &[u8]) {
    let mut from = Reader::new("listing", bytes);
    while let Ok(entry) = SnapshotEntry::read(&mut from) {
        let mut to = Writer::new();
        entry.write(&mut to);
        assert_eq!(SnapshotEntry::read(&mut Reader::new("listing", &to.finish())), Ok(entry));
    }
}

/// As it is, and with the checksum that a forger would write.
pub fn model(bytes: &[u8]) {
    decode_model(bytes);
    if let Some((body, _)) = bytes.split_last_chunk::<8>() {
        decode_model(&[body, &checksum(body).to_le_bytes()].concat());
    }
}

fn decode_model(bytes: &[u8]) {
    if let Ok(model) = Model::decode(bytes) {
        let encoded = model.encode().expect("a model that was read can be written");
        assert_eq!((Model::decode(&encoded), encoded.len()), (Ok(model), bytes.len()));
    }
}

pub fn store_toml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(settings) = Settings::from_text(text) {
        assert_eq!(Settings::from_text(&settings.to_text()), Ok(settings));
    }
}
