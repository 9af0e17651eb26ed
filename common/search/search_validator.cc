#include "common/search/search_validator.h"

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/search/algorithm_validator.h"
#include "common/search/brackets.h"
#include "common/search/rungs.h"
#include "common/search/search_error.h"
#include "common/search/trial_draws.h"
#include "common/search/trial_job.h"
#include "common/text/did_you_mean.h"
#include "proto/search.pb.h"

namespace muster {
namespace {

// Refuses fields that the search itself writes, or that decide whose job it is.
absl::Status CheckMayVary(const std::string& path, const v1::ParameterSpec& parameter,
                          const v1::SearchSpec& spec) {
  const std::string& field = parameter.field();
  const std::string first = field.substr(0, field.find_first_of(".["));
  for (const absl::string_view own : {"name", "owner", "namespace", "resume_from", "resumeFrom"}) {
    if (first == own) {
      return InvalidSearch(absl::StrCat(path, ".field"), absl::StrCat("\"", field, "\""),
                           "all trials have the search's own; vary another field");
    }
  }
  if (first == "stop" && HasRungs(spec)) {
    return InvalidSearch(absl::StrCat(path, ".field"), absl::StrCat("\"", field, "\""),
                         "the search's rungs decide when a trial stops; vary another field, or "
                         "search by `random` or `grid`");
  }
  if (first == "stop" && spec.max_steps() > 0) {
    return InvalidSearch(absl::StrCat(path, ".field"), absl::StrCat("\"", field, "\""),
                         "`max_steps` needs trials of equal length; leave it out, or vary another "
                         "field");
  }
  return absl::OkStatus();
}

absl::Status CheckValue(const std::string& path, const v1::ParameterSpec& parameter,
                        std::string value, v1::JobSpec job) {
  v1::Draw draw;
  draw.set_field(parameter.field());
  draw.set_value(std::move(value));
  return ApplyDraw(draw, path, job);
}

absl::Status CheckReals(const std::string& path, const v1::ParameterSpec& parameter,
                        const v1::SearchSpec& spec) {
  const bool logarithmic = parameter.has_log_uniform();
  const v1::RealRange& range = logarithmic ? parameter.log_uniform() : parameter.uniform();
  const std::string name = absl::StrCat(path, logarithmic ? ".log_uniform" : ".uniform");
  if (spec.has_grid()) {
    return InvalidSearch(name, "a range", "a grid tries each value; give them as choice.values");
  }
  if (!std::isfinite(range.min()) || !std::isfinite(range.max()) ||
      !std::isfinite(range.max() - range.min()) || range.min() >= range.max()) {
    return InvalidSearch(name, absl::StrCat("from ", range.min(), " to ", range.max()),
                         "min must be a finite number below max");
  }
  if (logarithmic && range.min() <= 0) {
    return InvalidSearch(absl::StrCat(name, ".min"), range.min(),
                         "a logarithm needs a number above 0; use `uniform` for other ranges");
  }
  for (const double end : {range.min(), range.max(), (range.min() + range.max()) / 2}) {
    MUSTER_RETURN_IF_ERROR(CheckValue(path, parameter, RealText(end), spec.job()));
  }
  return absl::OkStatus();
}

absl::Status CheckRange(const std::string& path, const v1::ParameterSpec& parameter,
                        const v1::SearchSpec& spec) {
  switch (parameter.range_case()) {
    case v1::ParameterSpec::kChoice:
      if (parameter.choice().values().empty()) {
        return InvalidSearch(absl::StrCat(path, ".choice.values"), "empty", "give one at least");
      }
      for (const std::string& value : parameter.choice().values()) {
        MUSTER_RETURN_IF_ERROR(CheckValue(path, parameter, value, spec.job()));
      }
      return absl::OkStatus();
    case v1::ParameterSpec::kInteger:
      if (parameter.integer().min() > parameter.integer().max()) {
        return InvalidSearch(absl::StrCat(path, ".integer.min"), parameter.integer().min(),
                             absl::StrCat("it must be at most max, ", parameter.integer().max()));
      }
      if (NumberOfValues(parameter) == 0) {
        return InvalidSearch(absl::StrCat(path, ".integer"), "every 64-bit number",
                             "give a smaller range");
      }
      MUSTER_RETURN_IF_ERROR(CheckValue(path, parameter, ValueAt(parameter, 0), spec.job()));
      return CheckValue(path, parameter, ValueAt(parameter, NumberOfValues(parameter) - 1),
                        spec.job());
    case v1::ParameterSpec::kUniform:
    case v1::ParameterSpec::kLogUniform:
      return CheckReals(path, parameter, spec);
    case v1::ParameterSpec::RANGE_NOT_SET:
      break;
  }
  return InvalidSearch(path, "without a range",
                       "give one of choice, uniform, log_uniform and integer");
}

// Returns whether two parameters are never drawn together.
bool Exclude(const v1::ParameterSpec& a, const v1::ParameterSpec& b) {
  return a.has_when() && b.has_when() && a.when().field() == b.when().field() &&
         a.when().equals() != b.when().equals();
}

// Checks that the condition names an earlier parameter and one of its values.
absl::Status CheckCondition(const std::string& path, int index, const v1::SearchSpec& spec) {
  const v1::ParameterCondition& when = spec.parameters(index).when();
  std::vector<std::string> fields;
  std::vector<std::string> values;
  for (int i = 0; i < index; ++i) {
    const v1::ParameterSpec& earlier = spec.parameters(i);
    if (!earlier.has_choice() && !earlier.has_integer()) continue;
    fields.push_back(earlier.field());
    if (earlier.field() != when.field()) continue;
    if (earlier.has_integer()) {
      for (uint64_t j = 0; j < NumberOfValues(earlier) && j < kMostTrials; ++j) {
        values.push_back(ValueAt(earlier, j));
      }
    }
    values.insert(values.end(), earlier.choice().values().begin(), earlier.choice().values().end());
  }
  if (values.empty()) {
    return InvalidSearch(absl::StrCat(path, ".when.field"), absl::StrCat("\"", when.field(), "\""),
                         absl::StrCat("name the field of an earlier parameter that is a choice or "
                                      "an integer",
                                      DidYouMean(when.field(), fields)));
  }
  if (std::set<std::string>(values.begin(), values.end()).count(when.equals()) > 0) {
    return absl::OkStatus();
  }
  return InvalidSearch(
      absl::StrCat(path, ".when.equals"), absl::StrCat("\"", when.equals(), "\""),
      absl::StrCat("give one of the values of ", when.field(), DidYouMean(when.equals(), values)));
}

absl::Status CheckParameters(const v1::SearchSpec& spec) {
  if (spec.parameters().empty() || spec.parameters_size() > kMostParameters) {
    return InvalidSearch("parameters", absl::StrCat("a list of ", spec.parameters_size()),
                         absl::StrCat("give 1 to ", kMostParameters));
  }
  for (int i = 0; i < spec.parameters_size(); ++i) {
    const v1::ParameterSpec& parameter = spec.parameters(i);
    const std::string path = absl::StrCat("parameters[", i, "]");
    MUSTER_RETURN_IF_ERROR(CheckMayVary(path, parameter, spec));
    for (int j = 0; j < i; ++j) {
      if (spec.parameters(j).field() != parameter.field() ||
          Exclude(parameter, spec.parameters(j))) {
        continue;
      }
      return InvalidSearch(absl::StrCat(path, ".field"),
                           absl::StrCat("\"", parameter.field(), "\""),
                           absl::StrCat("parameters[", j,
                                        "] varies it, too; give it once, or each "
                                        "with a `when` of its own value of one field"));
    }
    MUSTER_RETURN_IF_ERROR(CheckRange(path, parameter, spec));
    if (parameter.has_when()) MUSTER_RETURN_IF_ERROR(CheckCondition(path, i, spec));
  }
  return absl::OkStatus();
}

absl::Status CheckTrials(const v1::SearchSpec& spec) {
  if (spec.trials() > kMostTrials) {
    return InvalidSearch("trials", spec.trials(), absl::StrCat("it must be at most ", kMostTrials));
  }
  if (spec.trials() > 0) return absl::OkStatus();
  if (spec.has_grid() && GridPoints(spec, kMostTrials + 1) > kMostTrials) {
    return InvalidSearch("trials", 0,
                         absl::StrCat("the grid has more than ", kMostTrials,
                                      " points; give fewer values, or the number of trials"));
  }
  if (spec.has_hyperband() && TrialsOfAllBrackets(spec) > kMostTrials) {
    return InvalidSearch("trials", 0,
                         absl::StrCat("the brackets have more than ", kMostTrials,
                                      " trials; give more hyperband.min_steps, or the number of "
                                      "trials"));
  }
  if (spec.has_grid() || spec.has_hyperband()) return absl::OkStatus();
  return InvalidSearch("trials", 0, "give the number of trials");
}

absl::Status CheckObjective(const v1::SearchSpec& spec) {
  const std::string& metric = spec.objective().metric();
  const std::string& own = spec.job().evaluation().metric();
  const bool unspecified = spec.objective().direction() == v1::ObjectiveSpec::DIRECTION_UNSPECIFIED;
  if (metric.empty() && own.empty()) {
    return InvalidSearch("objective.metric", "empty",
                         "name the metric of the job's evaluations, such as loss or accuracy");
  }
  if (!metric.empty() && !own.empty() && metric != own && metric != "loss") {
    return InvalidSearch("objective.metric", absl::StrCat("\"", metric, "\""),
                         absl::StrCat("the job's evaluations have ", own,
                                      " and loss; name one of them, or change "
                                      "job.evaluation.metric"));
  }
  if (spec.job().model().has_program() && unspecified) {
    return InvalidSearch("objective.direction", "unspecified",
                         "a program's metric may be anything; give MINIMIZE or MAXIMIZE");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSearch(const v1::SearchSpec& spec) {
  if (spec.name().empty()) {
    return InvalidSearch("name", "empty", "name the search; its trials are called NAME-NUMBER");
  }
  MUSTER_RETURN_IF_ERROR(CheckObjective(spec));
  MUSTER_RETURN_IF_ERROR(CheckParameters(spec));
  MUSTER_RETURN_IF_ERROR(ValidateAlgorithm(spec));
  MUSTER_RETURN_IF_ERROR(CheckTrials(spec));
  if (spec.max_steps() > 0 && spec.job().stop().steps() == 0) {
    return InvalidSearch("max_steps", spec.max_steps(),
                         "trials are counted by their steps; give job.stop.steps, or leave it out");
  }
  return absl::OkStatus();
}

}  // namespace muster
