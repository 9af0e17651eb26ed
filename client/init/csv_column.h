#ifndef MUSTER_CLIENT_INIT_CSV_COLUMN_H_
#define MUSTER_CLIENT_INIT_CSV_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace muster {

// Use of a column that is not the target.
enum class ColumnUse {
  kNumeric,
  kCategorical,
  // The others are left out: one value everywhere, or none;
  kSameEverywhere,
  // (nearly) a value of its own in each record, which numbers or names the record;
  kTellsRecordsApart,
  // dates or times;
  kTimes,
  // sentences;
  kFreeText,
  // numbers that training does not read as such: "$5", "7,25", "12 %".
  kOtherNumbers,
};

// Returns the number that a text is to training (worker/data/parsing/number.h); nothing if it is
// none.
std::optional<double> ReadNumber(const std::string& text);

// Describes what the values of a table's column have in common, among the records looked at.
class CsvColumn {
 public:
  // Empty: a job cannot name the column.
  std::string name;

  // Adds the next record's value, without spaces around it. `line` counts from 1.
  void Add(const std::string& value, size_t line);

  // Returns what the column is good for, if it is not the target.
  ColumnUse Use() const;

  // As a target: labels of classes, as training accepts them (worker/data/csv/csv_labels.h), or
  // numbers. A column of whole numbers may be both; LooksLikeClasses tells which it is more likely.
  // A missing value counts against neither: HasMissingLabels tells of these.
  bool CanBeClasses() const;
  bool CanBeNumbers() const;
  bool LooksLikeClasses() const;
  // Clause for people that says why the column is no target, such as "line 7 is no number, though
  // others are". REQUIRES: neither CanBeClasses() nor CanBeNumbers().
  std::string WhyNoTarget() const;

  // Number of records without a label, and the line of the first one.
  size_t missing_labels() const { return missing_labels_; }
  size_t first_missing_label() const { return first_missing_label_; }

  // Number of outputs that a model needs for the labels. REQUIRES: CanBeClasses().
  uint32_t Classes() const;
  // Number of records of the value that has the fewest.
  size_t FewestRecords() const;
  // Number of different values, without those that are missing.
  size_t DifferentValues() const { return values_.size(); }

  // Line of the first text among numbers; 0: the values are all numbers, or all texts.
  size_t first_text_among_numbers() const { return numbers_ > 0 ? first_text_ : 0; }

 private:
  bool whole() const { return numbers_ > 0 && whole_; }
  size_t values() const { return numbers_ + texts_; }

  size_t records_ = 0;
  size_t numbers_ = 0;
  size_t texts_ = 0;
  size_t first_text_ = 0;
  // Texts of these kinds.
  size_t times_ = 0;
  size_t other_numbers_ = 0;
  // Words of all texts.
  size_t words_ = 0;
  // False if a text is no label.
  bool texts_are_labels_ = true;
  // False if a number is not whole, or neither -1 nor +1.
  bool whole_ = true;
  bool only_signs_ = true;
  double least_ = 0;
  double most_ = 0;
  size_t missing_labels_ = 0;
  size_t first_missing_label_ = 0;
  // Records of each value, and of each that is missing unless it is a label
  // (common/text/missing_value.h).
  absl::flat_hash_map<std::string, size_t> values_;
  absl::flat_hash_map<std::string, size_t> maybe_missing_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_CSV_COLUMN_H_
