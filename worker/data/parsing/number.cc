#include "worker/data/parsing/number.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/charconv.h"
#include "absl/strings/strip.h"

namespace muster {

absl::StatusOr<double> ParseNumber(absl::string_view text) {
  absl::string_view digits = text;
  // Labels often have a plus sign, which from_chars does not accept.
  if (absl::ConsumePrefix(&digits, "+") && !digits.empty() && digits.front() == '-') digits = "";
  // from_chars accepts hexadecimal, which is more likely a category or damage.
  if (digits.find_first_of("xX") != absl::string_view::npos) digits = "";
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const absl::from_chars_result result = absl::from_chars(digits.data(), end, value);
  if (digits.empty() || result.ec == std::errc::invalid_argument || result.ptr != end) {
    return absl::InvalidArgumentError("is not a number; write it with digits and a decimal point");
  }
  if (std::isnan(value)) {
    return absl::InvalidArgumentError("is not a number that training can use; drop or correct it");
  }
  // A value that is too small has become 0, which is near enough; one that is too large, the
  // largest double.
  if (std::abs(value) > std::numeric_limits<float>::max()) {
    return absl::InvalidArgumentError(
        "is infinite or beyond the largest float, 3.4e38; drop or rescale it");
  }
  return value;
}

absl::StatusOr<uint64_t> ParseIndex(absl::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec == std::errc::invalid_argument || result.ptr != end) {
    return absl::InvalidArgumentError("is not a whole number written in digits alone");
  }
  if (result.ec == std::errc::result_out_of_range) {
    return absl::InvalidArgumentError("does not fit 64 bits; renumber the features");
  }
  return value;
}

}  // namespace muster
