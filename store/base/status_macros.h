// Early return of an absl::Status, which abseil itself leaves to its users.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define REMORA_STATUS_CONCAT_INNER(a, b) a##b
#define REMORA_STATUS_CONCAT(a, b) REMORA_STATUS_CONCAT_INNER(a, b)

/// Returns from the enclosing function when `expression` is not OK.
#define REMORA_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

/// REMORA_ASSIGN_OR_RETURN(auto x, F()): declares x from an absl::StatusOr, or returns its status.
#define REMORA_ASSIGN_OR_RETURN(declaration, expression) \
  REMORA_ASSIGN_OR_RETURN_INNER(REMORA_STATUS_CONCAT(status_or_, __LINE__), declaration, expression)
#define REMORA_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                          \
  if (!temporary.ok()) return std::move(temporary).status();              \
  declaration = *std::move(temporary)
