// YCSB's properties: the files that describe workloads, and their meaning here.
// docs/reference/kvbench.md has the table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/kvbench/load/workload.h"

namespace remora::bench {

struct Property {
  std::string key;
  std::string value;
  std::string origin;  // for errors: "FILE:LINE", or the flag that said it
};

/// Parses a text in Java's format of properties, as far as YCSB's files use it: `key=value`, `key: value` or
/// `key value`. A property is on one line, or on several of which all but the last end with a backslash;
/// comments begin with # or !. InvalidArgument: a line without a key.
absl::StatusOr<std::vector<Property>> ParseProperties(std::string_view text, std::string_view origin);

/// Parses a file. NotFound, PermissionDenied, ...: it cannot be read.
absl::StatusOr<std::vector<Property>> ReadProperties(const std::string& path);

/// `key=value`, as of a command line.
absl::StatusOr<Property> ParseProperty(std::string_view text, std::string_view origin);

/// Applies one property. InvalidArgument, and nothing is done: no such key (the message names the nearest),
/// or a value out of bounds (the message says what is allowed).
absl::Status Apply(const Property& property, Workload* workload);

/// Returns whether the key is unknown, and no known key resembles it. Such a property is probably for another
/// of YCSB's bindings.
bool IsForOthers(const Property& property);

/// The core workload of this letter, in either case: the text of bench/workloads/. InvalidArgument: there is
/// none.
absl::StatusOr<std::vector<Property>> CoreWorkload(std::string_view letter);

/// Parses sizes of values of one field: a size, or LEAST..MOST, each as likely. InvalidArgument: it says
/// something else, or a size out of bounds, or the larger one first.
absl::StatusOr<Fields> ParseValueSizes(std::string_view text);

/// Returns the defaults of a property file: YCSB's own, where they differ from kvbench's.
Workload YcsbDefaults();

}  // namespace remora::bench
