#ifndef MUSTER_COMMON_BASE_STATUS_MACROS_H_
#define MUSTER_COMMON_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function with the expression's status unless it is OK.
#define MUSTER_RETURN_IF_ERROR(expression)                                                       \
  do {                                                                                           \
    if (absl::Status muster_status_ = (expression); !muster_status_.ok()) return muster_status_; \
  } while (false)

#define MUSTER_STATUS_CONCAT_INNER_(a, b) a##b
#define MUSTER_STATUS_CONCAT_(a, b) MUSTER_STATUS_CONCAT_INNER_(a, b)

// Evaluates a StatusOr expression; on success binds its value to `lhs`, otherwise returns its
// status.
#define MUSTER_ASSIGN_OR_RETURN(lhs, expression) \
  MUSTER_ASSIGN_OR_RETURN_INNER_(MUSTER_STATUS_CONCAT_(muster_statusor_, __LINE__), lhs, expression)
#define MUSTER_ASSIGN_OR_RETURN_INNER_(statusor, lhs, expression) \
  auto statusor = (expression);                                   \
  if (!statusor.ok()) return std::move(statusor).status();        \
  lhs = *std::move(statusor)

#endif  // MUSTER_COMMON_BASE_STATUS_MACROS_H_
