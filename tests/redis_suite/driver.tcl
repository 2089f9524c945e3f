# Runs units of Redis' own test suite against a server that is not Redis.
#
#     tclsh driver.tcl HOST PORT SKIPPED UNIT     in the folder of Redis' sources
#
# SKIPPED is a file with the names of tests that are not to be run, one a line. Each line of the output is an event and
# its texts, separated by tabs:
#
#     begin NAME, ok NAME, failed NAME WHY    of a test
#     ignored WHY                             the suite itself leaves a test or a block of tests out here
#     lacks NAME                              the server said that it has no such command, subcommand or setting
#     stopped WHY                             an error between the tests ends the block
#     done

proc event {args} {
    puts [join [lmap text $args {string map {\t " " \n " " \r ""} $text}] \t]
    flush stdout
}

lassign $argv host port skipped unit
set argv [list --host $host --port $port --singledb --durable --skipfile $skipped]
set helper [open tests/test_helper.tcl]
set text [read $helper]
close $helper
# The procedures and options of the suite. Its main program, which starts other processes, follows.
eval [string range $text 0 [string first "\nif {\$::client} \{" $text]]

proc send_data_packet {channel status data {elapsed 0}} {
    switch $status {
        testing {event begin $data}
        ok {event ok $data}
        err {event failed $::cur_test [string range $data 0 1000]}
        ignore {event ignored $data}
    }
}

proc note_what_is_lacking {reply} {
    foreach pattern {
        {unknown command '([^']*)'} {unknown subcommand '([^']*)'}
        {Unknown option or number of arguments for CONFIG SET - '([^']*)'}
    } {
        if {[regexp -nocase "^-?ERR $pattern" $reply -> name]} {event lacks [string tolower $name]}
    }
}

rename ::redis::redis_read_reply ::redis::read_reply_of_suite
proc ::redis::redis_read_reply {id channel} {
    set failed [catch {::redis::read_reply_of_suite $id $channel} reply options]
    if {$failed || $::redis::readraw($id)} {note_what_is_lacking $reply}
    return -options $options $reply
}

# A test that fails leaves replies and messages behind, or a transaction, which the next ones do not expect.
proc settle {} {
    after 300
    foreach {id channel} [array get ::redis::fd] {
        if {$channel eq ""} continue
        catch {
            fconfigure $channel -blocking 0
            read $channel
            fconfigure $channel -blocking 1
        }
    }
    regexp {[0-9]+$} [srv 0 client] id
    if {$::redis::readraw($id) || $::redis::deferred($id)} {
        catch {reconnect}
        return
    }
    catch {r discard}
    if {[catch {r ping} reply] && [string match "I/O*" $reply]} {catch {reconnect}}
}

rename test test_of_suite
proc test {name args} {
    set failures $::num_failed
    uplevel 1 [list test_of_suite $name {*}$args]
    if {$::num_failed != $failures} settle
}

proc run_external_server_test {code overrides} {
    lappend ::servers [dict create host $::host port $::port config [dict create port $::port] \
        client [redis $::host $::port]]
    r flushall
    foreach {name value} $overrides {catch {r config set $name $value}}
    if {[catch {uplevel 2 $code} error]} {event stopped $error}
    foreach {name value} {notify-keyspace-events "" maxclients 10000 tracking-table-max-keys 1000000} {
        catch {r config set $name $value}
    }
    catch {[dict get [lpop ::servers] client] close}
}

set ::test_server_fd stdout
set ::curfile tests/$unit.tcl
if {[catch {source $::curfile} error]} {event stopped $error}
event done
