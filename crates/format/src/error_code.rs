//! The codes of errors: one for each cause that a person treats differently, whatever crate met it.
//!
//! Numbers are for good: scripts compare them and people search for them. Each has a page in `docs/errors.md`, which
//! `thalweg explain` prints. The hundreds group them: 1 command line and configuration, 2 names and versions, 3 the
//! store's files, disk and damage, 4 catalog and sessions, 5 nodes and the network, 6 MPI programs, 7 gate, 8 encoding,
//! models, plan and recipes, from 851 on data diffusion, 9 internal.

use std::fmt;
use std::io::ErrorKind;

macro_rules! codes {
    ($($name:ident = $number:literal,)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($name,)+
        }

        impl ErrorCode {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name),+];

            /// Returns the code as users see it, as in `TW-203`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => concat!("TW-", $number),)+
                }
            }
        }
    };
}

codes! {
    Usage = 101,
    Address = 102,
    ConfigurationFile = 103,
    EnvironmentVariable = 104,
    StandardStream = 105,
    Incomplete = 106,
    Interrupted = 107,
    InputFile = 108,
    OutputFile = 109,
    NothingChosen = 110,
    NeedsDirectory = 111,
    PythonUsage = 112,

    InvalidName = 201,
    ReservedName = 202,
    NoSuchPath = 203,
    IsDirectory = 204,
    NotDirectory = 205,
    DirectoryNotEmpty = 206,
    NameTaken = 207,
    NoSuchVersion = 208,
    NewestVersionStays = 209,
    NoSuchSnapshot = 210,
    NotInSnapshot = 211,
    WrongKind = 212,
    CannotMove = 213,
    ReplacedMeanwhile = 214,
    SameTarget = 215,
    BeyondEnd = 216,
    TooManyTags = 217,
    UnreadableSnapshot = 218,

    NoStore = 301,
    FolderNotEmpty = 302,
    DiskFull = 303,
    PermissionDenied = 304,
    ReadOnly = 305,
    NoLocalFile = 306,
    SystemError = 307,
    DataDamaged = 308,
    DataMissing = 309,
    ManifestsDamaged = 310,
    TooNew = 311,
    TooOld = 312,
    SettingsLost = 313,
    WriteFailedEarlier = 314,
    NetworkFileSystem = 315,
    CatalogMismatch = 316,
    StoreInUse = 317,
    NearStore = 318,
    LocalNameTaken = 319,
    ChangedWhileRead = 320,

    CatalogDamaged = 401,
    CatalogFailed = 402,
    HeadMoved = 403,
    LeaseLost = 404,
    StripeSetLost = 405,
    BeingWritten = 406,
    NoSession = 407,
    SessionLive = 408,
    SessionEmpty = 409,
    NewerVersion = 410,
    TooLarge = 411,
    SegmentsCollected = 412,
    SessionFailed = 413,
    NothingCommitted = 414,

    NodeUnreachable = 501,
    NoThalwegPeer = 502,
    SecretRefused = 503,
    TlsRefused = 504,
    ProtocolMismatch = 505,
    DamagedMessage = 506,
    StoreReplaced = 507,
    NodeRefused = 508,
    NodeUnprotected = 509,
    CannotListen = 510,
    NodeNotStarted = 511,
    HostsUnreached = 512,
    NodeFailed = 513,

    NoStoreForProgram = 601,
    CallRefused = 602,
    HostList = 603,
    ProgramNotStarted = 604,
    FileNotStored = 605,
    RanksDisagree = 606,
    MpiFailed = 607,
    DatatypeRefused = 608,

    GateConfiguration = 701,
    GateCannotListen = 702,
    GateCertificate = 703,
    GateSystem = 704,
    GateSilent = 705,
    GateMalformed = 706,
    GateCallTooLong = 707,
    GateClientSlow = 708,
    GateServerUnreached = 709,
    GateTooManyConnections = 710,
    GatePacketForeign = 711,
    GateKeysDiffer = 712,
    GateExchangeFull = 713,

    ErrorBound = 801,
    NoSample = 802,
    Trace = 803,
    SystemFile = 804,
    Model = 805,
    NothingToRecommend = 806,
    EncodingChoice = 807,
    DataDropped = 808,
    NotRecomputable = 809,
    NoSuchRecipe = 810,
    RecipeNeeded = 811,
    CommandFailed = 812,
    ResultDiffers = 813,

    TaskTimedOut = 851,
    WorkerLost = 852,
    WorkerNotStarted = 853,
    InputFailed = 854,
    StoreGone = 855,
    StoreStalled = 856,
    OutputMissing = 857,
    RunNotRecorded = 858,
    RunFolderUnusable = 859,
    RunLost = 860,
    CacheLocked = 861,
    ListingUnusable = 862,

    Internal = 901,
    Unclassified = 902,
}

impl ErrorCode {
    /// Returns the code of an error of the operating system, by what a person does about it.
    pub fn of_io(kind: ErrorKind) -> Self {
        use ErrorKind::*;
        match kind {
            StorageFull | QuotaExceeded => ErrorCode::DiskFull,
            PermissionDenied => ErrorCode::PermissionDenied,
            ReadOnlyFilesystem => ErrorCode::ReadOnly,
            NotFound => ErrorCode::NoLocalFile,
            AlreadyExists | IsADirectory | NotADirectory | DirectoryNotEmpty => ErrorCode::LocalNameTaken,
            AddrInUse | AddrNotAvailable => ErrorCode::CannotListen,
            ConnectionRefused | ConnectionReset | ConnectionAborted | HostUnreachable | NetworkUnreachable
            | NetworkDown => ErrorCode::NodeUnreachable,
            _ => ErrorCode::SystemError,
        }
    }

    /// Returns a message with the code at its end, where users and scripts look for it.
    pub fn after(self, message: impl fmt::Display) -> String {
        format!("{message} [{self}]")
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new code is added here; a line that stands is never changed.
    const FROZEN: &str = include_str!("../../../testdata/error_codes.txt");

    #[test]
    fn a_number_that_was_given_once_keeps_its_meaning() {
        let line = |code: &ErrorCode| format!("{code} {code:?}");
        let codes: Vec<_> = ErrorCode::ALL.iter().map(line).collect();
        assert_eq!(codes, FROZEN.lines().collect::<Vec<_>>(), "testdata/error_codes.txt and the enum differ");
    }

    #[test]
    fn codes_ascend_and_have_three_digits() {
        assert!(ErrorCode::ALL.windows(2).all(|pair| pair[0].as_str() < pair[1].as_str()));
        assert!(ErrorCode::ALL.iter().all(|code| code.as_str().len() == "TW-101".len()));
    }

    #[test]
    fn a_code_stands_at_the_end_of_a_message() {
        assert_eq!(ErrorCode::NoSuchPath.after("a: no such file"), "a: no such file [TW-203]");
    }
}
