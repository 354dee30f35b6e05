//! The Gregorian calendar in UTC, by eras of 400 years that begin in March.

/// Returns year, month and day of a day since 1970.
pub fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + (month <= 2) as i64, month, day)
}

/// Returns the days since 1970 of a date from the year 0 to 9999; none where the calendar has no such day.
pub fn day(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let in_month = *days.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    if !(1..=in_month).contains(&day) || !(0..=9999).contains(&year) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_is_its_date() {
        let (first, last) = (day(0, 1, 1).unwrap(), day(9999, 12, 31).unwrap());
        for since_1970 in (first..=last).step_by(17).chain([last]) {
            let (year, month, of_month) = date(since_1970);
            assert_eq!(day(year, month, of_month), Some(since_1970));
        }
        assert_eq!(day(1970, 1, 1), Some(0));
        assert_eq!(day(2026, 2, 29), None);
        assert_eq!(day(2024, 2, 29), Some(19_782));
    }
}
