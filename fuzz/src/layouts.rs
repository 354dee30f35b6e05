//! The layouts of `format` that stand alone. What is read must be written as something that reads the same.

use format::{Attributes, JournalRecord, Page, Root, Settings};

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

pub fn store_toml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(settings) = Settings::from_text(text) {
        assert_eq!(Settings::from_text(&settings.to_text()), Ok(settings));
    }
}
