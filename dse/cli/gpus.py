import typer
app = typer.Typer(name="gpus")
@app.callback()
def a(): ...

@app.command()
def show(): ...
