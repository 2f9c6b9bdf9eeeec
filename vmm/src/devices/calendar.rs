//! The proleptic Gregorian calendar, in days.

/// A date: the year, the month from 1, the day from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
}

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;
/// Days in 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;

/// Days since 1970-01-01. Months beyond a year and days beyond a month carry over.
///
/// The year is taken to begin in March, so that the leap day is its last and the days before a month
/// are linear: 153 days in every five months.
pub(crate) fn days_from_date(date: Date) -> i64 {
    let months = date.month - 3;
    let year = date.year + months.div_euclid(12);
    let month = months.rem_euclid(12);
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + date.day - 1 - EPOCH
}

/// The date `days` after 1970-01-01.
pub(crate) fn date_from_days(days: i64) -> Date {
    let days = days + EPOCH;
    let era = days.div_euclid(ERA);
    let day = days.rem_euclid(ERA);
    // Drop the leap days before `day`: one every 1461 days, but for the centuries.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    Date {
        year: 400 * era + year + i64::from(month >= 10),
        month: (month + 2) % 12 + 1,
        day: day - (153 * month + 2) / 5 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::{Date, date_from_days, days_from_date};

    // Unix day numbers from `date -u -d DATE +%s` divided by 86400.
    #[test]
    fn known_days() {
        for (year, month, day, days) in [
            (1970, 1, 1, 0),
            (1969, 12, 31, -1),
            (2000, 2, 29, 11_016),
            (2000, 3, 1, 11_017),
            (2005, 4, 21, 12_894),
            (2100, 2, 28, 47_540),
            (2100, 3, 1, 47_541),
        ] {
            let date = Date { year, month, day };
            assert_eq!(days_from_date(date), days);
            assert_eq!(date_from_days(days), date);
        }
    }
}
