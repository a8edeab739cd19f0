%% Fresh processes at a steady rate, and how long each waited to run, for lab_peer. See ../README.md.
-module(lab_handlers).
-export([start/3, tell/2]).

-define(FRESH_MAX, 1 bsl 17).         % fresh processes in all; their accounts are kept to the end

%% Starts a process that spawns so many a second; one in five of them calls Compute. Of high
%% priority, as what starts burners is, so that it is not late. The accounts belong to the caller.
start(undefined, _, _) -> undefined;
start(Rate, Start, Compute) ->
    Book = ets:new(?MODULE, [public, {write_concurrency, true}]),
    spawn_opt(fun() -> spawn_due(Book, Rate, Start, Compute, 0) end, [{priority, high}]),
    {Book, Rate, Start}.

%% On a fixed schedule: one that was held up catches up.
spawn_due(_, _, _, _, ?FRESH_MAX) -> ok;
spawn_due(Book, Rate, Start, Compute, Index) ->
    case now_us(Start) >= due_us(Rate, Index) of
        true ->
            spawn_one(Book, Start, Compute, Index),
            spawn_due(Book, Rate, Start, Compute, Index + 1);
        false ->
            timer:sleep(max(1, (due_us(Rate, Index) - now_us(Start) + 999) div 1000)),
            spawn_due(Book, Rate, Start, Compute, Index)
    end.

spawn_one(Book, Start, Compute, Index) ->
    Kind = kind(Index),
    ets:insert(Book, {{spawned, Index}, now_us(Start)}),
    spawn_opt(fun() ->
        ets:insert(Book, {{ran, Index}, now_us(Start)}),
        case Kind of
            hog -> Compute();
            _ -> ok
        end
    end, [{priority, priority(Kind)}]).

%% Of each five one hogs and one is urgent, at places that move from five to five.
kind(Index) ->
    case (Index + 2 * (Index div 5)) rem 5 of
        0 -> hog;
        2 -> urgent;
        _ -> innocent
    end.

priority(urgent) -> high;
priority(_) -> normal.

due_us(Rate, Index) -> (Index + 1) * 1000000 div Rate.

now_us(Start) ->
    max(1, erlang:convert_time_unit(erlang:monotonic_time() - Start, native, microsecond)).

%% A line of JSON of all that were due: what each is, when it was due, spawned, and ran.
tell(Socket, {Book, Rate, Start}) ->
    At = now_us(Start),
    Due = min(At * Rate div 1000000, ?FRESH_MAX),
    Tasks = [task(Book, Rate, Index) || Index <- lists:seq(0, Due - 1), due_us(Rate, Index) =< At],
    gen_tcp:send(Socket, [io_lib:format("{\"at_us\":~b,\"tasks\":[", [At]),
                          lists:join($,, Tasks), "]}\n"]).

task(Book, Rate, Index) ->
    io_lib:format("[\"~s\",~b,~s,~s]", [kind(Index), due_us(Rate, Index),
                                        moment(Book, {spawned, Index}), moment(Book, {ran, Index})]).

moment(Book, Key) ->
    case ets:lookup(Book, Key) of
        [{_, Us}] -> integer_to_list(Us);
        [] -> "null"
    end.
